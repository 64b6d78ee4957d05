// Starts `provost lsp` for plan files, and opens a terminal if a person wants to approve a plan.

'use strict';

const vscode = require('vscode');
const { LanguageClient, TransportKind } = require('vscode-languageclient/node');

/** The running client, if there is one. */
let client;

/**
 * Quotes a word for a POSIX shell.
 * @param {string} word
 */
function quoted(word) {
  return /^[\w/.+=:,@%-]+$/.test(word) ? word : `'${word.replace(/'/g, `'\\''`)}'`;
}

function program() {
  return vscode.workspace.getConfiguration('provost').get('path', 'provost');
}

/**
 * Opens a terminal with the command that approves a plan. The person reads the plan there and decides.
 * @param {string} uri
 */
function approveInTerminal(uri) {
  const file = vscode.Uri.parse(uri);
  const folder = vscode.workspace.getWorkspaceFolder(file);
  const terminal = vscode.window.createTerminal({ name: 'provost approve', cwd: folder && folder.uri });
  terminal.show();
  terminal.sendText(`${quoted(program())} approve ${quoted(file.fsPath)}`);
}

async function start() {
  const executable = { command: program(), args: ['lsp'], transport: TransportKind.stdio };
  const watcher = vscode.workspace.createFileSystemWatcher('**/{provost.toml,PLAN*.md}');
  client = new LanguageClient('provost', 'Provost', executable, {
    documentSelector: [{ scheme: 'file', language: 'markdown', pattern: '**/PLAN*.md' }],
    synchronize: { fileEvents: watcher },
    middleware: {
      // Approving is the one command that the server must not do.
      executeCommand: (command, args, next) =>
        command === 'provost.approve' ? approveInTerminal(args[0]) : next(command, args),
    },
  });
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const pick = await vscode.window.showErrorMessage(
      `Cannot start \`${program()} lsp\`: ${error.message || error}`,
      'Open settings',
    );
    if (pick) {
      await vscode.commands.executeCommand('workbench.action.openSettings', 'provost.path');
    }
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running) {
    await running.stop();
  }
}

/** @param {vscode.ExtensionContext} context */
async function activate(context) {
  const restart = async () => {
    await stop();
    await start();
  };
  context.subscriptions.push(
    vscode.commands.registerCommand('provost.restart', restart),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration('provost.path')) {
        restart();
      }
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
