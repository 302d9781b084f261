// One App: its links, its calls, and the road of a message in and out. What this keeps true: ACK first, then dedup, then
// process; a connection speaks only for the App that registered on it (a Gateway for others too); nothing is processed
// before that Register.
import { randomUUID } from 'node:crypto'
import { Bus } from './bus.mjs'
import { decode, encode } from './cbor.mjs'
import { Handshakes } from './handshake.mjs'
import { Link } from './link.mjs'
import * as message from './message.mjs'
import { Serving } from './serving.mjs'
import { PieceStream } from './stream.mjs'
import * as transport from './transport.mjs'

const DEDUP_IDS_MAX = 8_192
const PROTOCOL_TIMEOUT_MS = 10_000

/** A Response that is not ok, or a call that can have none any more. */
export class CallError extends Error {}

export class App {
  #links = new Map()
  #waiters = new Map()
  #streams = new Map()
  #seen = new Map()
  #listeners = []
  #timers = new Set()

  constructor(appId, options = {}) {
    const defaults = { isGateway: false, ackTimeoutMs: 10_000, graceMs: 120_000, connection: {} }
    this.appId = appId
    this.options = { ...defaults, ...options }
    this.bus = new Bus()
    this.serving = new Serving(this)
    this.handshakes = new Handshakes(this)
    // ACKs that a test keeps back: with `holdAcks`, they are put here and not sent.
    this.holdAcks = false
    this.heldAcks = []
    // While it is deaf, what comes in is seen on the bus and goes no further, as if it had been lost.
    this.isDeaf = false
  }

  ability(name, run, description) {
    this.serving.ability(name, run, description)
    return this
  }

  event(name, run, description) {
    this.serving.event(name, run, description)
    return this
  }

  /** @returns the URL that was bound */
  async listen(url) {
    const listener = await transport.listen(url, this.options.connection, (connection) => this.#attach(connection))
    this.#listeners.push(listener)
    return listener.url
  }

  /** Connects and registers with `appId`. @returns the link; throws the reason of a refusal */
  async dial(url, appId, { registration = {} } = {}) {
    const connection = await transport.dial(url, this.options.connection)
    this.#attach(connection)
    return this.handshakes.dial(connection, appId, registration)
  }

  call(to, target, payload) {
    return this.#ask(message.request(this.appId, to, 'ability', target, payload))
  }

  /** An event call: the stream of its chunks, with `id`, `response` and `signal(kind, payload)`. */
  stream(to, target, payload) {
    const request = message.request(this.appId, to, 'event', target, payload)
    const stream = this.#open(request.id)
    stream.signal = (kind, chunk) => this.transmit(message.signal(this.appId, to, request.id, kind, chunk))
    stream.response = this.#ask(request).finally(() => this.#close(request.id))
    stream.response.catch(() => {}) // whoever only reads the chunks need not look at it
    return stream
  }

  /** A subscription on the bus of another App: the stream of {name, payload}, with `id` and `unsubscribe()`. */
  async subscribe(to, name) {
    const request = message.subscribe(this.appId, to, name)
    const stream = this.#open(request.id)
    stream.unsubscribe = async () => {
      await this.#ask(message.unsubscribe(this.appId, to, request.id), PROTOCOL_TIMEOUT_MS)
      this.#close(request.id)
    }
    try {
      await this.#ask(request, PROTOCOL_TIMEOUT_MS)
    } catch (error) {
      this.#close(request.id)
      throw error
    }
    return stream
  }

  /** Says goodbye and forgets the other App. */
  async unregister(to) {
    await this.#ask(message.unregister(this.appId, to), PROTOCOL_TIMEOUT_MS)
    this.#links.get(to)?.drop('unregistered')
  }

  /** Beats every `intervalMs`; a beat that is still unanswered at the next one takes the link offline. */
  startHeartbeat(to, intervalMs) {
    let answered = true
    const timer = setInterval(() => {
      if (this.#links.get(to)?.state !== 'online') return
      if (!answered) return this.#links.get(to).goOffline('heartbeat')
      answered = false
      const lives = () => (answered = true)
      this.call(to, 'NApp.heartbeat', { from: this.appId }).then(lives, lives)
    }, intervalMs)
    this.#timers.add(timer)
  }

  link(appId) {
    return this.#links.get(appId)
  }

  /** Tears the connection to an App, as a broken network would. */
  cut(appId) {
    this.#links.get(appId)?.connection?.close('cut by the test')
  }

  close() {
    for (const timer of this.#timers) clearInterval(timer)
    for (const link of [...this.#links.values()]) link.drop('closed')
    for (const listener of this.#listeners) listener.close()
    for (const { reject } of this.#waiters.values()) reject(new CallError('terminated'))
    this.#waiters.clear()
  }

  /** Sends an answer to a message that asked for one. */
  respond(asked, verdict, payload) {
    return this.transmit(message.response(this.appId, asked.from, asked.id, verdict, payload))
  }

  /** Routes by `to` alone. Resolves as `Link.send` does, with false if there is no road. */
  transmit(msg) {
    const link = this.#route(msg.to)
    if (link) return link.send(msg)
    const reason = msg.to === this.appId ? 'self-addressed' : 'no-route'
    this.bus.publish('nacp:internal:route:error', { msg, reason })
    return Promise.resolve(false)
  }

  #route(to) {
    if (to === this.appId) return undefined
    return this.#links.get(to) ?? [...this.#links.values()].find(({ isGateway }) => isGateway)
  }

  /** The link to an App, made when there is none yet. */
  linkTo(appId) {
    const known = this.#links.get(appId)
    if (known) return known
    const link = new Link(appId, {
      ...this.options,
      on: {
        outbound: ({ connection }, msg) => this.#published('outbound', { toPeerId: connection.id, msg }),
        offline: () => this.bus.publish('nacp:internal:napp:success', { appId, reason: 'offline' }),
        ackTimeout: (_, msg) => this.bus.publish('nacp:internal:ack:warning', { msg, reason: 'timeout' }),
        dropped: () => this.#forget(appId),
      },
    })
    this.#links.set(appId, link)
    return link
  }

  hasOtherGateway(appId) {
    return [...this.#links.values()].some((link) => link.isGateway && link.appId !== appId)
  }

  #published(direction, payload) {
    this.bus.publish(`nacp:${direction}:${payload.msg.type}`, payload)
  }

  #forget(appId) {
    this.#links.delete(appId)
    this.#seen.delete(appId)
    this.serving.forget(appId)
    for (const [id, waiter] of this.#waiters) {
      if (waiter.to !== appId) continue
      this.#waiters.delete(id)
      waiter.reject(new CallError('peer-gone'))
    }
    this.bus.publish('nacp:internal:napp:success', { appId, reason: 'dropped' })
  }

  #open(id) {
    const stream = Object.assign(new PieceStream(), { id })
    this.#streams.set(id, stream)
    return stream
  }

  #close(id) {
    this.#streams.get(id)?.end()
    this.#streams.delete(id)
  }

  #ask(request, timeoutMs) {
    return new Promise((resolve, reject) => {
      const settle = (how) => (value) => {
        clearTimeout(timer)
        how(value)
      }
      this.#waiters.set(request.id, { to: request.to, resolve: settle(resolve), reject: settle(reject) })
      const timer = timeoutMs && setTimeout(() => this.#givenUp(request, 'response-timeout'), timeoutMs)
      if (!this.#route(request.to)) return this.#givenUp(request, 'no-route')
      return this.transmit(request)
    })
  }

  #givenUp(request, reason) {
    const waiter = this.#waiters.get(request.id)
    this.#waiters.delete(request.id)
    this.#route(request.to)?.withdraw(request.id)
    waiter?.reject(new CallError(reason))
  }

  #attach(connection) {
    this.bus.publish('nact:peer:connect', { peerId: connection.id })
    connection.on('message', (bytes) => this.#receive(connection, bytes))
    connection.on('close', (reason) => {
      this.bus.publish('nact:peer:disconnect', { peerId: connection.id, reason })
      const link = this.#links.get(connection.appId)
      if (link?.connection === connection) link.goOffline(reason)
    })
  }

  #receive(connection, bytes) {
    const msg = decode(bytes)
    this.#published('inbound', { fromPeerId: connection.id, msg })
    if (this.isDeaf) return
    if (this.handshakes.take(connection, msg)) return
    const link = this.#links.get(connection.appId)
    if (!link || link.connection !== connection) return // not registered: it has nothing to say
    if (msg.from !== connection.appId && !link.isGateway)
      return this.bus.publish('nacp:internal:route:error', { msg, reason: 'from-mismatch' })
    if (msg.to !== this.appId) return this.#forward(msg, bytes)
    if (msg.type === 'ack') return this.#acked(msg)
    if (message.isReliable(msg)) this.#acknowledge(msg)
    if (this.#isRepeated(msg)) return
    this.#process(msg, link)
  }

  #forward(msg, bytes) {
    const link = this.options.isGateway ? this.#links.get(msg.to) : undefined
    if (link?.connection) {
      this.bus.publish('nacp:internal:gateway:success', { msg, reason: 'forwarded' })
      return link.connection.send(bytes)
    }
    return this.bus.publish('nacp:internal:route:error', { msg, reason: 'no-route' })
  }

  #acked({ meta, ...rest }) {
    const expected = [...this.#links.values()].some((link) => link.acked(meta.parentId))
    if (!expected)
      this.bus.publish('nacp:internal:ack:error', { msg: { meta, ...rest }, reason: 'has-no-consumer' })
  }

  #acknowledge(msg) {
    const ack = message.ack(this.appId, msg.from, msg.id)
    if (this.holdAcks) this.heldAcks.push(ack)
    else this.transmit(ack)
  }

  #isRepeated({ from, id }) {
    const seen = this.#seen.get(from) ?? new Set()
    this.#seen.set(from, seen)
    if (seen.has(id)) return true
    seen.add(id)
    if (seen.size > DEDUP_IDS_MAX) seen.delete(seen.values().next().value)
    return false
  }

  #process(msg, link) {
    switch (msg.type) {
      case 'request': return this.serving.request(msg)
      case 'signal': return this.serving.signal(msg)
      case 'subscribe': return this.serving.subscribe(msg)
      case 'unsubscribe': return this.serving.unsubscribe(msg)
      case 'response': return this.#responded(msg)
      case 'notify': return this.#notified(msg)
      case 'unregister': return this.#departed(msg, link)
      default: return undefined
    }
  }

  #responded(msg) {
    const { parentId, isOk, whyNotOk, kind } = msg.meta
    const waiter = this.#waiters.get(parentId)
    const fromGateway = this.#links.get(msg.from)?.isGateway === true
    if (!waiter || (msg.from !== waiter.to && !fromGateway))
      return this.bus.publish('nacp:internal:response:error', { msg, reason: 'has-no-consumer' })
    this.#waiters.delete(parentId)
    if (kind) this.bus.publish(`nacp:${kind}:${parentId}:response`, { result: msg.payload, isOk, whyNotOk })
    return isOk ? waiter.resolve(msg.payload) : waiter.reject(new CallError(whyNotOk))
  }

  #notified(msg) {
    const { parentId, targetSubName, hitSubName } = msg.meta
    const stream = this.#streams.get(parentId)
    if (!stream) return this.bus.publish('nacp:internal:notify:error', { msg, reason: 'has-no-consumer' })
    const isChunk = targetSubName === `nacp:event:${parentId}:process`
    return stream.push(isChunk ? msg.payload : { name: hitSubName, payload: msg.payload })
  }

  /** The reply is handed over first; its ACK is not waited for. */
  async #departed(msg, link) {
    const reply = message.response(this.appId, msg.from, msg.id, { isOk: true })
    await link.connection.send(encode(reply))
    link.drop('unregistered')
  }
}

/** An App ID that no other test uses. */
export const freshId = (name) => `${name}-${randomUUID().slice(0, 8)}`
