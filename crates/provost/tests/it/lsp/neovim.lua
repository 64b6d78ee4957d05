-- Drives `provost lsp` from Neovim (0.7 or later) and writes what it saw to $RESULT as JSON.

local seen = {}

local function params()
  return vim.lsp.util.make_position_params(0, 'utf-16')
end

-- Asks the server, and returns its result.
local function ask(method, arguments)
  local answers = vim.lsp.buf_request_sync(0, method, arguments, 20000) or {}
  for _, answer in pairs(answers) do
    return answer.result
  end
end

-- Puts the cursor on the first line with this text, before it or after it.
local function go_to(text, after)
  for number, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do
    local first, last = line:find(text, 1, true)
    if first then
      vim.api.nvim_win_set_cursor(0, { number, after and last or first - 1 })
      return
    end
  end
  error('no line with ' .. text)
end

local function codes()
  local found = {}
  for _, each in ipairs(vim.diagnostic.get(0)) do
    local code = each.code or each.user_data.lsp.code
    table.insert(found, string.format('%s %d:%d', code, each.lnum, each.col))
  end
  table.sort(found)
  return found
end

local function wait_for(what, is_there)
  assert(vim.wait(30000, is_there, 20), 'waited too long for ' .. what)
end

local function drive()
  local client = vim.lsp.start_client({
    name = 'provost',
    cmd = { vim.env.PROVOST, 'lsp' },
    root_dir = vim.fn.getcwd(),
  })
  vim.lsp.buf_attach_client(0, client)
  wait_for('diagnostics', function() return #vim.diagnostic.get(0) > 0 end)
  seen.first = codes()

  go_to('contarct')
  local hover = ask('textDocument/hover', params())
  seen.hover = hover.contents.value

  go_to('contarct')
  local asked = vim.lsp.util.make_range_params(0, 'utf-16')
  asked.context = { diagnostics = vim.lsp.diagnostic.get_line_diagnostics() }
  local actions = ask('textDocument/codeAction', asked)
  seen.action = actions[1].title
  vim.lsp.util.apply_workspace_edit(actions[1].edit, 'utf-16')

  -- Typed by a person: Neovim sends the changes.
  go_to('Step 3:')
  vim.cmd('normal! 7xi3.')
  go_to('exit_code is', true)
  vim.cmd('normal! bcw==')

  go_to('**target:** ü', true)
  vim.cmd('normal! daw')
  vim.api.nvim_set_current_line('**target:** ')
  vim.api.nvim_win_set_cursor(0, { vim.api.nvim_win_get_cursor(0)[1], 12 })
  local row = vim.api.nvim_win_get_cursor(0)[1] - 1
  local items = ask('textDocument/completion', {
    textDocument = vim.lsp.util.make_text_document_params(),
    position = { line = row, character = 12 },
  })
  seen.completion = vim.tbl_map(function(item) return item.label end, items)
  vim.lsp.util.apply_text_edits({ items[1].textEdit }, 0, 'utf-16')

  go_to('2. Zwei')
  vim.lsp.buf.rename('1')
  wait_for('the rename', function()
    return vim.fn.search('^### 1\\. Zwei', 'nw') > 0
  end)

  vim.cmd('silent write')
  local text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n')
  wait_for('the diagnostics after the edits', function()
    return not vim.tbl_contains(codes(), seen.first[1]) and #codes() ~= #seen.first
  end)
  -- Nothing may come after the last text.
  vim.wait(500)
  seen.last = codes()
  seen.text = text

  vim.lsp.stop_client(client)
  wait_for('the end of the server', function() return vim.lsp.client_is_stopped(client) end)
end

local ok, problem = pcall(drive)
if not ok then seen.problem = tostring(problem) end
local file = assert(io.open(vim.env.RESULT, 'w'))
file:write(vim.fn.json_encode(seen))
file:close()
vim.cmd('qall!')
