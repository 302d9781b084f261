// What an App does for others: abilities, events with their chunks and signals, subscriptions on its bus. What this keeps
// true: an event request is subscribed to its own `process` name before its handler starts, and its Response ends that.
import * as message from './message.mjs'

/** What an event handler gets besides the payload. */
class EventContext {
  #heard
  #early = []

  constructor(request, process) {
    this.id = request.id
    this.from = request.from
    this.process = process
    this.aborter = new AbortController()
  }

  get aborted() {
    return this.aborter.signal
  }

  /** Signals that came before are given at once. */
  onSignal = (heard) => {
    this.#heard = heard
    for (const early of this.#early.splice(0)) heard(...early)
  }

  signalled(kind, payload) {
    if (this.#heard) this.#heard(kind, payload)
    else this.#early.push([kind, payload])
    if (kind === 'abort') this.aborter.abort()
  }
}

export class Serving {
  #abilities = new Map()
  #events = new Map()
  #running = new Map()
  #subscriptions = new Map()

  constructor(app) {
    this.app = app
    this.ability('NApp.introduce', () => this.declaration())
    this.ability('NApp.heartbeat', () => true)
  }

  ability(name, run, description = '') {
    this.#abilities.set(name, { run, description })
  }

  event(name, run, description = '') {
    this.#events.set(name, { run, description })
  }

  declaration() {
    const listed = (entries) => [...entries].map(([name, { description }]) => ({ name, description }))
    return {
      events: listed(this.#events),
      abilities: listed(this.#abilities).filter(({ name }) => !name.startsWith('NApp.')),
    }
  }

  async request(msg) {
    const { kind, target } = msg.meta
    const handler = (kind === 'event' ? this.#events : this.#abilities).get(target)
    if (!handler) {
      this.app.bus.publish('nacp:internal:request:error', { msg, reason: 'no-processor' })
      return this.app.respond(msg, { isOk: false, whyNotOk: `no ${kind} '${target}'`, kind })
    }
    try {
      const result = kind === 'event' ? await this.#runEvent(msg, handler) : await handler.run(msg.payload, msg)
      return this.app.respond(msg, { isOk: true, kind }, result)
    } catch (error) {
      return this.app.respond(msg, { isOk: false, whyNotOk: error.message, kind })
    }
  }

  async #runEvent(msg, handler) {
    const name = `nacp:event:${msg.id}:process`
    this.#listen(msg.id, msg.from, name)
    const context = new EventContext(msg, (chunk) => this.app.bus.publish(name, chunk))
    this.#running.set(msg.id, context)
    try {
      return await handler.run(msg.payload, context)
    } finally {
      this.#running.delete(msg.id)
      this.#end(msg.id)
    }
  }

  signal(msg) {
    const context = this.#running.get(msg.meta.parentId)
    if (!context) return this.app.bus.publish('nacp:internal:signal:error', { msg, reason: 'no-event-processor' })
    this.app.bus.publish(`nacp:event:${msg.meta.parentId}:signal`, msg)
    return context.signalled(msg.meta.kind, msg.payload)
  }

  subscribe(msg) {
    const name = msg.payload?.targetSubName
    if (typeof name !== 'string' || name === '' || name.split(':').includes('')) {
      this.app.bus.publish('nacp:internal:subscribe:error', { msg, reason: 'bad-target-sub-name' })
      return this.app.respond(msg, { isOk: false, whyNotOk: 'bad-target-sub-name' })
    }
    this.#listen(msg.id, msg.from, name)
    return this.app.respond(msg, { isOk: true }, { targetSubId: msg.id })
  }

  unsubscribe(msg) {
    const id = msg.payload?.targetSubId
    if (this.#subscriptions.get(id)?.appId !== msg.from) {
      this.app.bus.publish('nacp:internal:subscribe:error', { msg, reason: 'unknown-subscription' })
      return this.app.respond(msg, { isOk: false, whyNotOk: 'unknown-subscription' })
    }
    this.#end(id)
    return this.app.respond(msg, { isOk: true })
  }

  /** Ends what a departed App had asked for. */
  forget(appId) {
    for (const [id, subscription] of this.#subscriptions) if (subscription.appId === appId) this.#end(id)
  }

  #listen(id, appId, name) {
    const off = this.app.bus.on(name, (payload, hitName) => {
      // A notify of this subscription is itself news on the bus; it must not feed on itself.
      if (payload?.msg?.type === 'notify' && payload.msg.meta.parentId === id) return
      this.app.transmit(message.notify(this.app.appId, appId, id, name, hitName, payload))
    })
    this.#subscriptions.set(id, { appId, off })
  }

  #end(id) {
    this.#subscriptions.get(id)?.off()
    this.#subscriptions.delete(id)
  }
}
