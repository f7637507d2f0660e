// The tests that the Durable Streams project has for servers, against the address in SERVER.
// LEFT_OUT is a JSON object: names of tests, or of groups of tests, and why they are left out.
import { runConformanceTests } from '@durable-streams/server-conformance-tests'
import fc from 'fast-check'
import { beforeEach } from 'vitest'

fc.configureGlobal({ seed: 1 }) // the same examples in every run

const leftOut = new Map(Object.entries(JSON.parse(process.env.LEFT_OUT)))

beforeEach(({ task, skip }) => {
  for (let place = task; place; place = place.suite) {
    if (leftOut.has(place.name)) skip(leftOut.get(place.name))
  }
})

runConformanceTests({ baseUrl: process.env.SERVER, longPollTimeoutMs: 20_000 })
