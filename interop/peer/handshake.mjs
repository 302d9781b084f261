// Register, on both sides. What this keeps true: the binding exists before the first message behind the Register is looked
// at; a refusal goes straight down its connection, which ends soon after; a Register for somebody else is dropped.
import { encode } from './cbor.mjs'
import * as message from './message.mjs'

const RESPONSE_TIMEOUT_MS = 10_000
const REFUSED_LINGER_MS = 1_000

export class Handshakes {
  #dialled = new Map()

  constructor(app) {
    this.app = app
  }

  #card() {
    return { isGateway: this.app.options.isGateway, decl: this.app.serving.declaration() }
  }

  /** `registration` overrides the message, for tests that register wrongly (`v`, `payload`). */
  dial(connection, appId, registration) {
    const msg = { ...message.register(this.app.appId, appId, this.#card()), ...registration }
    return new Promise((resolve, reject) => {
      const fail = (reason) => {
        clearTimeout(timer)
        this.#dialled.delete(connection)
        connection.close(reason)
        reject(new Error(reason))
      }
      const timer = setTimeout(() => fail('response-timeout'), RESPONSE_TIMEOUT_MS)
      connection.once('close', (reason) => fail(reason ?? 'closed'))
      const succeed = (link) => {
        clearTimeout(timer)
        this.#dialled.delete(connection)
        resolve(link)
      }
      this.#dialled.set(connection, { id: msg.id, appId, succeed, fail })
      this.app.bus.publish('nacp:outbound:register', { toPeerId: connection.id, msg })
      connection.send(encode(msg))
    })
  }

  /** @returns whether the message belonged to a handshake and is dealt with */
  take(connection, msg) {
    if (msg.type === 'register') {
      this.#accept(connection, msg)
      return true
    }
    const dialled = this.#dialled.get(connection)
    if (!dialled || msg.meta.parentId !== dialled.id) return false
    if (msg.type === 'response') this.#answered(connection, dialled, msg)
    return true
  }

  async #answered(connection, dialled, msg) {
    const ack = message.ack(this.app.appId, msg.from, msg.id)
    if (!msg.meta.isOk || msg.from !== dialled.appId) {
      await connection.send(encode(ack))
      return dialled.fail(msg.meta.isOk ? 'expect-mismatch' : msg.meta.whyNotOk)
    }
    return this.#bind(connection, msg, [ack], dialled.succeed)
  }

  #accept(connection, msg) {
    const { bus, appId } = this.app
    if (msg.to !== appId) return undefined
    const reason = this.#refusal(msg)
    if (reason) {
      bus.publish('nacp:internal:register:error', { fromPeerId: connection.id, from: msg.from, reason })
      connection.send(encode(message.response(appId, msg.from, msg.id, { isOk: false, whyNotOk: reason })))
      const timer = setTimeout(() => connection.close('refused'), REFUSED_LINGER_MS)
      return connection.once('close', () => clearTimeout(timer))
    }
    const first = [
      message.ack(appId, msg.from, msg.id),
      message.response(appId, msg.from, msg.id, { isOk: true }, this.#card()),
    ]
    return this.#bind(connection, msg, first, () => {})
  }

  #refusal(msg) {
    const { isGateway } = this.app.options
    if (isGateway && msg.payload.isGateway) return 'dual-gateway'
    if (msg.v.major !== message.VERSION.major) return 'version-mismatch'
    if (this.app.link(msg.from)?.state === 'online') return 'appId-in-use'
    if (msg.payload.isGateway && this.app.hasOtherGateway(msg.from)) return 'multi-gateway'
    return undefined
  }

  #bind(connection, msg, first, done) {
    const { isGateway, decl } = msg.payload
    const link = this.app.linkTo(msg.from)
    connection.appId = msg.from
    link.bind(connection, { isGateway, decl }, first)
    this.app.bus.publish('nacp:internal:napp:success', { appId: msg.from, reason: 'bound', isGateway })
    done(link)
  }
}
