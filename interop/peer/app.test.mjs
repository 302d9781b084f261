// This peer against itself, over every transport: a test of the test peer, so that a failure between it and another
// implementation says something.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import test from 'node:test'
import { App } from './app.mjs'
import { values } from './values.mjs'

const directory = mkdtempSync(path.join(tmpdir(), 'nacp-js-'))
test.after(() => rmSync(directory, { recursive: true }))

const listenUrls = {
  tcp: 'tcp://127.0.0.1:0',
  unix: `unix://${directory}/socket`,
  ws: 'ws://127.0.0.1:0/nacp',
  http: 'http://127.0.0.1:0/nacp',
  tls: 'tls://127.0.0.1:0',
  wss: 'wss://127.0.0.1:0/nacp',
  https: 'https://127.0.0.1:0/nacp',
}

function world(options) {
  return new App('world', options)
    .ability('echo', (payload) => payload)
    .ability('fail', () => {
      throw new Error('it failed')
    })
    .event('count', async ({ from }, context) => {
      for (let left = from; left > 0; left -= 1) context.process({ left })
      return { done: true }
    })
    .event('hold', (payload, context) => new Promise((resolve, reject) => {
      context.onSignal((signal, payload) => context.process({ signal, payload }))
      context.aborted.addEventListener('abort', () => reject(new Error('aborted')))
    }))
}

async function pair(context, url, { connection = {}, ...options } = {}) {
  const server = world({ connection, ...options })
  const client = new App('hello', { connection, ...options })
  context.after(() => [client, server].forEach((app) => app.close()))
  const bound = await server.listen(url)
  await client.dial(bound, 'world')
  return { server, client, bound }
}

for (const [name, url] of Object.entries(listenUrls)) {
  test(`${name}: calls, values, streams, signals, subscriptions, goodbye`, async (context) => {
    const { server, client } = await pair(context, url)
    assert.deepEqual(await client.call('world', 'echo', values), values)
    assert.deepEqual(await client.call('world', 'echo'), {})
    await assert.rejects(client.call('world', 'fail'), { message: 'it failed' })
    await assert.rejects(client.call('world', 'nope'), { message: "no ability 'nope'" })
    assert.equal(await client.call('world', 'NApp.heartbeat', { from: 'hello' }), true)

    const count = client.stream('world', 'count', { from: 3 })
    assert.deepEqual(await count.rest(), [{ left: 3 }, { left: 2 }, { left: 1 }])
    assert.deepEqual(await count.response, { done: true })

    const hold = client.stream('world', 'hold')
    hold.signal('normal', { add: 1 })
    hold.signal('pause')
    hold.signal('abort')
    const heard = (await hold.take(3)).map(({ signal }) => signal)
    assert.deepEqual(heard, ['normal', 'pause', 'abort'])
    await assert.rejects(hold.response, { message: 'aborted' })

    const tasks = await client.subscribe('world', 'task:*')
    server.bus.publish('task:done', { result: 42 })
    assert.deepEqual(await tasks.take(1), [{ name: 'task:done', payload: { result: 42 } }])
    await tasks.unsubscribe()
    await assert.rejects(client.subscribe('world', ''), { message: 'bad-target-sub-name' })

    await client.unregister('world')
    await server.bus.until('nacp:internal:napp:success', { where: ({ reason }) => reason === 'dropped' })
  })

  test(`${name}: a message in many frames`, async (context) => {
    const { client } = await pair(context, url, { connection: { chunkSize: 64 << 10 } })
    const data = Buffer.alloc(5 << 20, 'chunk')
    const echoed = await client.call('world', 'echo', { data })
    assert.ok(data.equals(echoed.data))
    assert.ok(client.link('world').connection.framesOut > 80)
  })
}

test('after a cut, what was not ACKed comes again with its id and is not processed again', async (context) => {
  const { server, client, bound } = await pair(context, listenUrls.tcp)
  let runs = 0
  server.ability('once', () => ++runs)
  server.holdAcks = true
  const call = client.call('world', 'once')
  await server.bus.until('nacp:inbound:request')
  client.cut('world')
  await server.bus.until('nacp:internal:napp:success', { where: ({ reason }) => reason === 'offline' })
  server.holdAcks = false
  await client.dial(bound, 'world')
  assert.equal(await call, 1)
  await server.bus.until('nacp:inbound:request', { count: 2 })
  const ids = server.bus.all('nacp:inbound:request').map(({ msg }) => msg.id)
  assert.equal(new Set(ids).size, 1)
  assert.equal(runs, 1)
})

test('the same App ID twice, and a foreign version, are refused', async (context) => {
  const { bound } = await pair(context, listenUrls.tcp)
  const twin = new App('hello')
  await assert.rejects(twin.dial(bound, 'world'), { message: 'appId-in-use' })
  const old = new App('old')
  const registration = { v: { major: 1, minor: 0 } }
  await assert.rejects(old.dial(bound, 'world', { registration }), { message: 'version-mismatch' })
})

test('a Gateway forwards by `to` alone and refuses another Gateway', async (context) => {
  const gateway = new App('gateway', { isGateway: true })
  const [a, b, other] = [new App('a'), world(), new App('other', { isGateway: true })]
  context.after(() => [a, b, gateway].forEach((app) => app.close()))
  const bound = await gateway.listen(listenUrls.tcp)
  await a.dial(bound, 'gateway')
  await b.dial(bound, 'gateway')
  assert.deepEqual(await a.call('world', 'echo', { via: 'gateway' }), { via: 'gateway' })
  await assert.rejects(other.dial(bound, 'gateway'), { message: 'dual-gateway' })
})

test('heartbeats are answered, and silence takes the link offline', async (context) => {
  const { server, client } = await pair(context, listenUrls.tcp)
  client.startHeartbeat('world', 100)
  await client.bus.until('nacp:inbound:response', { count: 3 })
  server.holdAcks = true
  server.serving.ability('NApp.heartbeat', () => new Promise(() => {}))
  await client.bus.until('nacp:internal:napp:success', { where: ({ reason }) => reason === 'offline' })
})
