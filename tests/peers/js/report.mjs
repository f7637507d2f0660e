// What every program here shares: the prompts and tools of the test, and one line of JSON for each result.

export const url = process.argv[2];
export const KEY = "sim-key";
export const STATUSES = [400, 401, 403, 404, 429, 500, 503, 529];

const CITY = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
export const PLACE = {
  type: "object",
  properties: { city: { type: "string" }, year: { type: "integer" } },
  required: ["city", "year"],
  additionalProperties: false,
};
export const WEATHER = { name: "weather", description: "Weather of a city", schema: CITY };
export const CLOCK = { name: "clock", description: "The time", schema: { type: "object", properties: {} } };
export const forecast = ({ city }) => `7 degrees in ${city}`;
export const noon = () => "noon";

/** An error as the test compares it: the class, the status that the client read, the words. */
function told(error) {
  const kind = error?.constructor?.name ?? typeof error;
  const status = error?.status ?? error?.statusCode ?? error?.cause?.status ?? null;
  return { error: { kind, status, message: String(error?.message ?? error) } };
}

/** Runs the cases in their order, or those that the third argument names; a case gives a plain object or throws. */
export async function report(cases) {
  const only = process.argv[4]?.split(",");
  for (const [name, play] of Object.entries(cases)) {
    if (only && !only.includes(name)) continue;
    let found;
    try {
      found = await play();
    } catch (error) {
      found = told(error);
    }
    console.log(JSON.stringify({ case: name, ...found }));
  }
  process.exit(0); // clients keep connections open
}

/** A case for each status that the script refuses with. */
export function refusals(ask) {
  return Object.fromEntries(STATUSES.map((s) => [`refuse ${s}`, () => ask(`refuse ${s}`)]));
}
