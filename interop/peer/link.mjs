// What one App knows about another, and the messages under way to it. What this keeps true: a message is in one place
// (backlog, submitted, pending); a cut puts everything unconfirmed back in its original order, under its old id; each
// send settles once.
import { encode } from './cbor.mjs'
import { isReliable } from './message.mjs'

export class Link {
  #backlog = []
  #submitted = new Map()
  #pending = new Map()
  #sequence = 0
  #graceTimer

  /** `on` has `offline(link)`, `dropped(link)`, `outbound(link, message)` and `ackTimeout(link, message)`. */
  constructor(appId, { ackTimeoutMs, graceMs, on }) {
    Object.assign(this, { appId, ackTimeoutMs, graceMs, on })
    this.state = 'offline'
    this.connection = undefined
    this.isGateway = false
    this.decl = undefined
  }

  /** Binds the connection; `first` (the handshake's own messages) go before the Backlog. */
  bind(connection, { isGateway, decl }, first = []) {
    clearTimeout(this.#graceTimer)
    Object.assign(this, { connection, isGateway, decl, state: 'online' })
    for (const message of first) this.#submit(this.#record(message, true))
    this.#flush()
  }

  /** Resolves with true when accepted (notify, ack) or ACKed (all others), with false when given up. */
  send(message) {
    const record = this.#record(message, false)
    this.#backlog.push(record)
    this.#flush()
    return record.settled
  }

  /** @returns whether some message was waiting for this ACK */
  acked(id) {
    const record = this.#pending.get(id) ?? this.#submitted.get(id)
    if (!record) return false
    this.#pending.delete(id)
    this.#submitted.delete(id)
    this.#settle(record, true)
    return true
  }

  get waiting() {
    return { backlog: this.#backlog.length, submitted: this.#submitted.size, pending: this.#pending.size }
  }

  goOffline(reason) {
    if (this.state !== 'online') return
    this.state = 'offline'
    const connection = this.connection
    this.connection = undefined
    const unconfirmed = [...this.#submitted.values(), ...this.#pending.values()]
    this.#submitted.clear()
    this.#pending.clear()
    for (const record of unconfirmed) {
      clearTimeout(record.timer)
      // A handshake belongs to its connection; a later one has its own.
      if (record.isHandshake) this.#settle(record, false)
      else this.#backlog.push(record)
    }
    this.#backlog.sort((a, b) => a.sequence - b.sequence)
    this.#graceTimer = setTimeout(() => this.drop('grace-ended'), this.graceMs)
    connection.close(reason)
    this.on.offline(this)
  }

  /** Takes a message out of the queues, as if it had never been sent. */
  withdraw(id) {
    const all = [...this.#backlog, ...this.#submitted.values(), ...this.#pending.values()]
    const record = all.find(({ message }) => message.id === id)
    if (!record) return
    this.#backlog = this.#backlog.filter((other) => other !== record)
    this.#submitted.delete(id)
    this.#pending.delete(id)
    this.#settle(record, false)
  }

  drop(reason) {
    if (this.state === 'dropped') return
    this.state = 'dropped'
    clearTimeout(this.#graceTimer)
    for (const record of [...this.#backlog, ...this.#submitted.values(), ...this.#pending.values()])
      this.#settle(record, false)
    this.#backlog = []
    this.#submitted.clear()
    this.#pending.clear()
    const connection = this.connection
    this.connection = undefined
    connection?.close(reason)
    this.on.dropped(this)
  }

  #record(message, isHandshake) {
    let settle
    const settled = new Promise((resolve) => (settle = resolve))
    const sequence = ++this.#sequence
    return { message, bytes: encode(message), isHandshake, sequence, settled, settle, timer: undefined }
  }

  #settle(record, value) {
    clearTimeout(record.timer)
    record.settle(value)
  }

  #flush() {
    while (this.state === 'online' && this.#backlog.length > 0) this.#submit(this.#backlog.shift())
  }

  async #submit(record) {
    const { id } = record.message
    const connection = this.connection
    this.#submitted.set(id, record)
    this.on.outbound(this, record.message)
    const accepted = await connection.send(record.bytes)
    // Not ours any more: ACKed early, or back in the Backlog after a cut.
    if (!accepted || this.connection !== connection || this.#submitted.get(id) !== record) return
    this.#submitted.delete(id)
    if (!isReliable(record.message)) return this.#settle(record, true)
    this.#pending.set(id, record)
    record.timer = setTimeout(() => {
      this.on.ackTimeout(this, record.message)
      this.goOffline('ack-timeout')
    }, this.ackTimeoutMs)
  }
}
