// The `nacp` command and JavaScript Apps. What this keeps true: what a user types reaches a base program, and what that
// answers is printed.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import test from 'node:test'
import { freshId } from '../peer/app.mjs'
import { values } from '../peer/values.mjs'
import { javascriptApp, place } from './places.mjs'
import { nacp, nacpRunning, RustApp } from './rust_app.mjs'

async function served(context, ...words) {
  const id = freshId('world')
  const { child, lines } = nacpRunning(context, 'serve', '--id', id, '--listen', 'tcp://127.0.0.1:0', ...words)
  const { value } = await lines.next()
  return { id, child, url: value.split(' ').at(-1) }
}

test('nacp serve: echo and countdown', async (context) => {
  const world = await served(context)
  const js = javascriptApp(context)
  await js.dial(world.url, world.id)
  assert.deepEqual(await js.call(world.id, 'echo', values), values)
  const countdown = js.stream(world.id, 'countdown', { from: 3, interval_ms: 1 })
  assert.deepEqual(await countdown.rest(), [{ left: 3 }, { left: 2 }, { left: 1 }])
  assert.deepEqual(await countdown.response, { done: true })
  const exited = once(world.child, 'exit')
  world.child.kill('SIGINT')
  await js.bus.until('nacp:inbound:unregister')
  assert.deepEqual(await exited, [0, null])
})

test('nacp call, event, introduce and sub reach a JavaScript App', async (context) => {
  const js = javascriptApp(context)
  const url = await js.listen(place(context, 'tcp'))
  const target = ['--connect', url]
  const call = await nacp('call', js.appId, 'echo', '{"text":"hi 世界","n":[1,2.5,null]}', ...target)
  assert.deepEqual(JSON.parse(call.stdout), { text: 'hi 世界', n: [1, 2.5, null] }, call.stderr)
  const failed = await nacp('call', js.appId, 'fail', ...target)
  assert.equal(failed.code, 1)
  assert.match(failed.stderr, /it failed/)
  const event = await nacp('event', js.appId, 'count', '{"from":2}', ...target)
  assert.equal(event.code, 0, event.stderr)
  assert.match(event.stdout, /\{"left":2\}\s+\{"left":1\}\s+= *\{"done":true\}/)
  const introduced = await nacp('introduce', js.appId, ...target)
  assert.match(introduced.stdout, /echo[^]*returns its payload/)
  const { lines } = nacpRunning(context, 'sub', js.appId, 'news:*', ...target)
  await js.bus.until('nacp:inbound:subscribe')
  js.bus.publish('news:today', { n: 1 })
  const { value } = await lines.next()
  assert.match(value, /news:today.*\{"n":1\}/)
})

test('nacp call through Gateways of both makes', async (context) => {
  const world = await served(context, '--gateway')
  const js = javascriptApp(context)
  await js.dial(world.url, world.id)
  const ours = await nacp('call', js.appId, 'echo', '1', '--via', world.id, '--connect', world.url)
  assert.equal(ours.stdout.trim(), '1', ours.stderr)
  const gateway = javascriptApp(context, { isGateway: true })
  const url = await gateway.listen(place(context, 'tcp'))
  const rust = await RustApp.start(context, { id: freshId('rust') })
  await rust.connect(gateway.appId, url)
  const theirs = await nacp('call', rust.id, 'echo', '2', '--via', gateway.appId, '--connect', url)
  assert.equal(theirs.stdout.trim(), '2', theirs.stderr)
})
