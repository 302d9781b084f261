// One live connection, whatever carries it. What this keeps true: whole messages go in and come out; a message is
// "accepted" only when the transport took its last byte; and a connection closes exactly once, with the reason of its end.
import { EventEmitter } from 'node:events'
import { frames, FrameCutter, FrameError, Reassembler } from './frame.mjs'

let lastId = 0

/** Emits `message` (bytes) and, once, `close` (reason or undefined). */
export class Connection extends EventEmitter {
  #reassembler = new Reassembler()
  #cutter = new FrameCutter()
  #closed = false
  #unsettled = new Set()

  /**
   * @param wire `write(frame, done)` hands bytes over and calls `done(error?)` when they are taken; `destroy()` cuts.
   */
  constructor(wire, { chunkSize }) {
    super()
    this.id = `js-peer-${++lastId}`
    this.wire = wire
    this.chunkSize = chunkSize
    // Frames as they came and went, for tests that look at the wire itself.
    this.framesIn = 0
    this.framesOut = 0
  }

  get closed() {
    return this.#closed
  }

  /** Resolves with true when the transport took every byte, with false when it will not. */
  send(message) {
    if (this.#closed) return Promise.resolve(false)
    return new Promise((resolve) => {
      this.#unsettled.add(resolve)
      const all = [...frames(message, this.chunkSize)]
      this.framesOut += all.length
      all.forEach((frame, index) => {
        const last = index === all.length - 1
        this.wire.write(frame, (error) => {
          if (error) this.close(error.reason ?? 'write-failed')
          else if (last && this.#unsettled.delete(resolve)) resolve(true)
        })
      })
    })
  }

  /** Bytes of a stream transport, cut anywhere. */
  feedStream(bytes) {
    this.#guarded(() => {
      for (const frame of this.#cutter.push(bytes)) this.#take(frame)
    })
  }

  /** One frame of a message transport. */
  feedFrame(frame) {
    this.#guarded(() => this.#take(frame))
  }

  #guarded(work) {
    if (this.#closed) return
    try {
      work()
    } catch (error) {
      if (!(error instanceof FrameError)) throw error
      this.close(error.reason)
    }
  }

  #take(frame) {
    this.framesIn += 1
    const message = this.#reassembler.push(frame)
    if (message) this.emit('message', message)
  }

  /** Cuts the connection, without any word to the other end. */
  close(reason) {
    if (this.#closed) return
    this.#closed = true
    this.wire.destroy()
    for (const resolve of this.#unsettled) resolve(false)
    this.#unsettled.clear()
    this.emit('close', reason)
  }
}
