// Runs the extension with a stand-in for VS Code and its client library, and prints what it did as JSON.

'use strict';

const Module = require('node:module');
const path = require('node:path');

const seen = { typed: [], forwarded: [], stopped: 0 };

const vscode = {
  Uri: { parse: (uri) => ({ fsPath: decodeURIComponent(uri.replace('file://', '')) }) },
  window: {
    createTerminal: () => ({ show() {}, sendText: (text) => seen.typed.push(text) }),
    showErrorMessage: async (message) => { throw new Error(message); },
  },
  workspace: {
    getConfiguration: () => ({ get: () => 'my provost' }),
    getWorkspaceFolder: () => undefined,
    createFileSystemWatcher: () => ({}),
    onDidChangeConfiguration: () => ({}),
  },
  commands: { registerCommand: () => ({}) },
};

class LanguageClient {
  constructor(id, name, executable, options) {
    Object.assign(seen, { command: executable.command, args: executable.args });
    seen.pattern = options.documentSelector[0].pattern;
    this.execute = options.middleware.executeCommand;
    LanguageClient.last = this;
  }

  async start() {}

  async stop() {
    seen.stopped += 1;
  }
}

const load = Module._load;
Module._load = (request, ...rest) => {
  if (request === 'vscode') return vscode;
  if (request === 'vscode-languageclient/node') return { LanguageClient, TransportKind: { stdio: 0 } };
  return load(request, ...rest);
};

async function main() {
  const extension = require(path.join(process.cwd(), 'extension.js'));
  await extension.activate({ subscriptions: [] });
  const next = (command) => seen.forwarded.push(command);
  LanguageClient.last.execute('provost.try', ['file:///a', 1], next);
  LanguageClient.last.execute('provost.approve', ["file:///a%20b/PLAN-it's.md"], next);
  await extension.deactivate();
  console.log(JSON.stringify(seen));
}

main();
