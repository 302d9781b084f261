// The event bus of one App. What this keeps true: names are `:`-separated and `*` stands for exactly one segment; what was
// published can still be awaited afterwards, so that a test waits for facts and never for time.
const HISTORY_MAX = 20_000

export function matches(pattern, name) {
  const wanted = pattern.split(':')
  const given = name.split(':')
  return wanted.length === given.length && wanted.every((segment, at) => segment === '*' || segment === given[at])
}

export class Bus {
  #listeners = new Set()
  #history = []
  #forgotten = 0

  /** @returns a function that takes the listener away again */
  on(pattern, heard) {
    const listener = { pattern, heard }
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  publish(name, payload) {
    this.#history.push({ name, payload })
    if (this.#history.length > HISTORY_MAX) {
      this.#history.shift()
      this.#forgotten += 1
    }
    for (const { pattern, heard } of [...this.#listeners]) if (matches(pattern, name)) heard(payload, name)
  }

  /** The present place in history, for `until` and `all`. */
  mark() {
    return this.#forgotten + this.#history.length
  }

  /** Everything published under the pattern since `after`. */
  all(pattern, { after = 0, where = () => true } = {}) {
    return this.#history
      .slice(Math.max(0, after - this.#forgotten))
      .filter(({ name, payload }) => matches(pattern, name) && where(payload))
      .map(({ payload }) => payload)
  }

  /** The first (or `count`th) payload published under the pattern since `after`, also if that was before this call. */
  async until(pattern, { after = 0, where = () => true, count = 1, withinMs = 15_000 } = {}) {
    const found = () => this.all(pattern, { after, where })[count - 1]
    const already = found()
    if (already !== undefined) return already
    return new Promise((resolve, reject) => {
      const stop = (settle) => {
        clearTimeout(timer)
        off()
        settle()
      }
      const timer = setTimeout(() => stop(() => reject(new Error(`no ${pattern} within ${withinMs} ms`))), withinMs)
      const off = this.on(pattern, () => {
        const payload = found()
        if (payload !== undefined) stop(() => resolve(payload))
      })
    })
  }
}
