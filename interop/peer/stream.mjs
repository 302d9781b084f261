// What comes in pieces: the chunks of an event call, the hits of a subscription. What this keeps true: pieces are given in
// the order of arrival, none that came before the end is lost, and the loop over them ends with the stream.
export class PieceStream {
  #pieces = []
  #waiting = []
  #ended = false

  push(piece) {
    if (this.#ended) return
    const waiter = this.#waiting.shift()
    if (waiter) waiter({ value: piece, done: false })
    else this.#pieces.push(piece)
  }

  end() {
    this.#ended = true
    for (const waiter of this.#waiting.splice(0)) waiter({ value: undefined, done: true })
  }

  next() {
    if (this.#pieces.length > 0) return Promise.resolve({ value: this.#pieces.shift(), done: false })
    if (this.#ended) return Promise.resolve({ value: undefined, done: true })
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  async take(count) {
    const taken = []
    while (taken.length < count) {
      const { value, done } = await this.next()
      if (done) throw new Error(`the stream ended after ${taken.length} of ${count} pieces`)
      taken.push(value)
    }
    return taken
  }

  async rest() {
    const all = []
    for await (const piece of this) all.push(piece)
    return all
  }

  [Symbol.asyncIterator]() {
    return this
  }
}
