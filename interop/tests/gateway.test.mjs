// Gateways of both makes between Apps of both makes. What this keeps true: what is forwarded arrives as it was sent; what
// has no road is answered; nobody speaks in another's name.
import assert from 'node:assert/strict'
import test from 'node:test'
import { freshId } from '../peer/app.mjs'
import { encode } from '../peer/cbor.mjs'
import * as message from '../peer/message.mjs'
import { values } from '../peer/values.mjs'
import { javascriptApp, place, transports } from './places.mjs'
import { RustApp } from './rust_app.mjs'

const rustGateway = (context, transport = 'tcp') =>
  RustApp.start(context, { id: freshId('gateway'), gateway: true, listen: [place(context, transport)] })

for (const transport of transports) {
  test(`${transport}: JavaScript calls JavaScript through our Gateway`, async (context) => {
    const gateway = await rustGateway(context, transport)
    const [a, b] = [javascriptApp(context), javascriptApp(context)]
    await a.dial(gateway.url, gateway.id)
    await b.dial(gateway.url, gateway.id)
    assert.equal(a.link(gateway.id).isGateway, true)
    assert.deepEqual(await a.call(b.appId, 'echo', values), values)
    const [sent] = a.bus.all('nacp:outbound:request')
    const [received] = b.bus.all('nacp:inbound:request')
    assert.equal(encode(received.msg).toString('hex'), encode(sent.msg).toString('hex'), 'byte for byte')

    const hold = b.stream(a.appId, 'hold')
    hold.signal('normal', { n: 1 })
    assert.deepEqual(await hold.take(1), [{ signal: 'normal', payload: { n: 1 } }])
    hold.signal('abort')
    await assert.rejects(hold.response, { message: 'aborted' })

    const news = await a.subscribe(b.appId, 'news:*')
    b.bus.publish('news:today', 1)
    assert.deepEqual(await news.take(1), [{ name: 'news:today', payload: 1 }])
    await news.unsubscribe()
  })
}

test('JavaScript and Rust call each other through our Gateway', async (context) => {
  const gateway = await rustGateway(context)
  const js = javascriptApp(context)
  const rust = await RustApp.start(context, { id: freshId('rust') })
  await js.dial(gateway.url, gateway.id)
  await rust.connect(gateway.id, gateway.url)
  assert.deepEqual(await js.call(rust.id, 'value', values), values)
  assert.deepEqual(await rust.call(js.appId, 'echo', values), values)
  const [count, counted] = [js.stream(rust.id, 'count', { from: 9 }), rust.stream(js.appId, 'count', { from: 9 })]
  assert.equal((await count.rest()).length, 9)
  assert.equal((await counted.rest()).length, 9)
})

test('JavaScript and Rust call each other through a JavaScript Gateway', async (context) => {
  const gateway = javascriptApp(context, { isGateway: true })
  const url = await gateway.listen(place(context, 'tcp'))
  const js = javascriptApp(context)
  const [rust, other] = await Promise.all([1, 2].map(() => RustApp.start(context, { id: freshId('rust') })))
  await js.dial(url, gateway.appId)
  await rust.connect(gateway.appId, url)
  await other.connect(gateway.appId, url)
  assert.deepEqual(await js.call(rust.id, 'value', values), values)
  assert.deepEqual(await rust.call(js.appId, 'echo', values), values)
  assert.deepEqual(await rust.call(other.id, 'echo', values), values)
  const hold = rust.stream(other.id, 'hold')
  await hold.request
  hold.signal('abort')
  await assert.rejects(hold.response, { message: 'aborted' })
})

test('a request for an App that the Gateway does not know is answered no-route', async (context) => {
  const gateway = await rustGateway(context)
  const js = javascriptApp(context)
  const rust = await RustApp.start(context, { id: freshId('rust') })
  await js.dial(gateway.url, gateway.id)
  await rust.connect(gateway.id, gateway.url)
  await assert.rejects(js.call('nobody', 'echo'), { message: 'no-route' })
  await assert.rejects(rust.call('nobody', 'echo'), { message: 'no-route' })
  const [answer] = js.bus.all('nacp:inbound:response', { where: ({ msg }) => msg.meta.isOk === false })
  assert.equal(answer.msg.from, gateway.id)
})

test('a message in the name of another App is dropped and reported', async (context) => {
  const gateway = await rustGateway(context)
  await gateway.listen('nacp:internal:route:error')
  const [thief, victim, target] = [1, 2, 3].map(() => javascriptApp(context))
  for (const app of [thief, victim, target]) await app.dial(gateway.url, gateway.id)
  const forged = message.request(victim.appId, target.appId, 'ability', 'once', { forged: true })
  await thief.link(gateway.id).connection.send(encode(forged))
  const { msg, reason } = await gateway.bus.until('nacp:internal:route:error')
  assert.deepEqual([msg.id, reason], [forged.id, 'from-mismatch'])
  // What is forwarded goes in order: had it gone on, it would have come before this.
  assert.equal(await thief.call(target.appId, 'once'), 1)
  assert.equal(target.bus.all('nacp:inbound:request', { where: (heard) => heard.msg.id === forged.id }).length, 0)
})

test('a plain App does not take messages in the name of another', async (context) => {
  const rust = await RustApp.start(context, { id: freshId('rust'), listen: [place(context, 'tcp')] })
  await rust.listen('nacp:internal:route:error')
  const [thief, victim] = [javascriptApp(context), javascriptApp(context)]
  await thief.dial(rust.url, rust.id)
  await victim.dial(rust.url, rust.id)
  await thief.link(rust.id).connection.send(encode(message.request(victim.appId, rust.id, 'ability', 'once')))
  assert.equal((await rust.bus.until('nacp:internal:route:error')).reason, 'from-mismatch')
  assert.equal(await victim.call(rust.id, 'once'), 1)
})
