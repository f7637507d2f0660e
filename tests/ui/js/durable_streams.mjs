// Reads a stream with @durable-streams/client: URL, the mode ("false", "long-poll", "sse"), an offset.
// Prints a line for each message as it comes, then one with the client's state.
import { stream } from '@durable-streams/client'

const [url, mode, offset] = process.argv.slice(2)
const response = await stream({ url, offset, live: mode === 'false' ? false : mode })
for await (const message of response.jsonStream()) {
  console.log(JSON.stringify({ message }))
}
console.log(JSON.stringify({ offset: response.offset, closed: response.streamClosed, upToDate: response.upToDate }))
