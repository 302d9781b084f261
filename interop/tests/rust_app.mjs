// One App of ours in a process of its own, steered line by line. What this keeps true: payloads are encoded and decoded by
// the JavaScript side alone; whatever the App tells is on `bus`, so a test can await it; the process ends with its test.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { Bus } from '../peer/bus.mjs'
import { decode, encode } from '../peer/cbor.mjs'
import { PieceStream } from '../peer/stream.mjs'

const binaries = process.env.NACP_INTEROP_BINARIES ?? new URL('../../target/debug', import.meta.url).pathname

const hex = (value) => (value === undefined ? 'b90000' : encode(value).toString('hex'))
const unhex = (text) => decode(Buffer.from(text, 'hex'))

export class RustApp {
  #answers = new Map()
  #streams = new Map()
  #numbers = 0

  /** Started when it listens. `setup` is as in rust-peer/src/main.rs. */
  static async start(context, setup) {
    const app = new RustApp(setup)
    context.after(() => app.end())
    const { urls } = await Promise.race([app.bus.until('ready'), app.ended])
    return Object.assign(app, { id: setup.id, urls, url: urls[0] })
  }

  constructor(setup) {
    this.bus = new Bus()
    const options = { stdio: ['pipe', 'pipe', 'inherit'] }
    this.process = spawn(`${binaries}/nacp-interop-peer`, [JSON.stringify(setup)], options)
    createInterface({ input: this.process.stdout }).on('line', (line) => this.#told(JSON.parse(line)))
    this.ended = once(this.process, 'exit').then(([code]) => {
      const error = new Error(`the Rust peer ended with ${code}`)
      for (const { reject } of this.#answers.values()) reject(error)
      throw error
    })
    this.ended.catch(() => {}) // most tests never look
  }

  #told(report) {
    if (report.event) return this.#happened(report)
    const { resolve, reject } = this.#answers.get(report.number)
    this.#answers.delete(report.number)
    return report.error === undefined ? resolve(report.ok) : reject(new Error(report.error))
  }

  #happened({ event, number, payload, ...rest }) {
    const value = payload === undefined ? undefined : unhex(payload)
    const stream = this.#streams.get(number)
    if (event === 'chunk') stream.push(value)
    if (event === 'hit') stream.push({ name: rest.name, payload: value })
    if (event === 'request') stream.begun(rest.id)
    if (event === 'bus') this.bus.publish(rest.name, value)
    else this.bus.publish(event, { number, payload: value, ...rest })
  }

  command(what, settings = {}, number = ++this.#numbers) {
    const answer = new Promise((resolve, reject) => this.#answers.set(number, { resolve, reject }))
    this.process.stdin.write(`${JSON.stringify({ number, do: what, ...settings })}\n`)
    return answer
  }

  connect(app, url) {
    return this.command('connect', { app, url })
  }

  async call(app, name, payload) {
    return unhex(await this.command('call', { app, name, payload: hex(payload) }))
  }

  /** As `App.stream` of the JavaScript peer; `begun` resolves with the request's id. */
  stream(app, name, payload) {
    const number = ++this.#numbers
    const stream = new PieceStream()
    stream.request = new Promise((resolve) => (stream.begun = resolve))
    this.#streams.set(number, stream)
    const settings = { app, name, payload: hex(payload) }
    stream.response = this.command('event', settings, number).then(unhex).finally(() => stream.end())
    stream.response.catch(() => {}) // whoever only reads the chunks need not look at it
    stream.signal = (kind, value) => {
      const sent = this.command('signal', { call: number, kind, payload: value === undefined ? undefined : hex(value) })
      sent.catch(() => {}) // whoever does not wait for the ACK need not see that the test ended before it
      return sent
    }
    return stream
  }

  async subscribe(app, pattern) {
    const number = ++this.#numbers
    const stream = new PieceStream()
    this.#streams.set(number, stream)
    await this.command('subscribe', { app, pattern }, number)
    stream.unsubscribe = async () => {
      await this.command('unsubscribe', { subscription: number })
      const { error } = await this.bus.until('unsubscribed', { where: (told) => told.number === number })
      if (error) throw new Error(error)
    }
    return stream
  }

  emit(name, payload) {
    return this.command('emit', { name, payload: hex(payload) })
  }

  /** From here on, what its own bus carries under the pattern is on `bus`, too. */
  listen(pattern) {
    return this.command('listen', { pattern })
  }

  async end() {
    if (this.process.exitCode !== null) return
    this.process.stdin.end()
    await this.ended.catch(() => {})
  }
}

/** Runs the `nacp` command. @returns {code, stdout, stderr} */
export async function nacp(...words) {
  const child = spawn(`${binaries}/nacp`, words, { stdio: ['ignore', 'pipe', 'pipe'] })
  const texts = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr']) child[name].setEncoding('utf8').on('data', (text) => (texts[name] += text))
  const [code] = await once(child, 'close')
  return { code, ...texts }
}

/** Starts a `nacp` command that runs on. @returns its lines of stdout as they come, and the process */
export function nacpRunning(context, ...words) {
  const child = spawn(`${binaries}/nacp`, words, { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = new Promise((resolve) => child.on('exit', resolve))
  context.after(() => {
    child.kill('SIGKILL') // does nothing to one that has ended
    return exited
  })
  const lines = new PieceStream()
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line)).on('close', () => lines.end())
  return { child, lines }
}
