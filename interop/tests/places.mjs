// Where the two sides meet. What this keeps true: every transport is tried with each side as the one that dials, and no
// two tests share a name, a port or a socket.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { App, freshId } from '../peer/app.mjs'
import { RustApp } from './rust_app.mjs'

export const transports = ['tcp', 'unix', 'ws', 'http', 'tls', 'wss', 'https']
export const diallers = ['javascript', 'rust']

/** A URL to listen at. */
export function place(context, transport) {
  if (transport === 'tcp' || transport === 'tls') return `${transport}://127.0.0.1:0`
  if (transport !== 'unix') return `${transport}://127.0.0.1:0/nacp`
  const directory = mkdtempSync(path.join(tmpdir(), 'nacp-'))
  context.after(() => rmSync(directory, { recursive: true, force: true }))
  return `unix:${directory}/socket`
}

/** A JavaScript App with the same handlers as the Rust one. */
export function javascriptApp(context, options, id = freshId('js')) {
  let runs = 0
  const app = new App(id, options)
    .ability('echo', (payload) => payload, 'returns its payload')
    .ability('once', () => (runs += 1))
    .ability('fail', () => {
      throw new Error('it failed')
    })
    .event('count', ({ from }, { process }) => {
      for (let left = from; left > 0; left -= 1) process({ left })
      return { done: true }
    })
    .event('hold', (_, { onSignal, process, aborted }) => new Promise((resolve, reject) => {
      onSignal((signal, payload) => process({ signal, payload }))
      aborted.addEventListener('abort', () => reject(new Error('aborted')))
    }))
  context.after(() => app.close())
  return app
}

/** A JavaScript and a Rust App, linked. `redial` makes the JavaScript side register anew. */
export async function linked(context, { transport = 'tcp', dialler = 'javascript', js = {}, rust = {} } = {}) {
  const url = place(context, transport)
  const jsApp = javascriptApp(context, js)
  const setup = { id: freshId('rust'), backoffMs: 20, ...rust }
  if (dialler === 'javascript') {
    const rustApp = await RustApp.start(context, { ...setup, listen: [url] })
    const redial = () => jsApp.dial(rustApp.url, rustApp.id)
    await redial()
    return { js: jsApp, rust: rustApp, redial }
  }
  const rustApp = await RustApp.start(context, setup)
  await rustApp.connect(jsApp.appId, await jsApp.listen(url))
  return { js: jsApp, rust: rustApp }
}

/** Serves `gated`: it answers, with what it was asked with, when the gate is open. A Response would prove receipt, too. */
export function gated(js) {
  const runs = []
  let open
  const gate = new Promise((resolve) => (open = resolve))
  js.ability('gated', (payload) => {
    runs.push(payload)
    return gate.then(() => payload)
  })
  return { runs, open }
}

export const isLink = (appId, reason) => ({ where: (told) => told.appId === appId && told.reason === reason })

export const LINK_NEWS = 'nacp:internal:napp:success'
