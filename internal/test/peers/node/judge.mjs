// Judges requests by policies, with IAM Simulate. It reads one JSON object from standard
// input, {policies: [document], requests: [{action, arn, keys, tag}]}, and writes for each
// request the list of verdicts, one for each policy: true if the policy alone allows it.
// A request to assume a role also has requestTag, the tag of the session, and the role's trust.
import { text } from 'node:stream/consumers'
import { runSimulation } from '@cloud-copilot/iam-simulate'

const account = '123456789012'
const { policies, requests } = JSON.parse(await text(process.stdin))

function context(request) {
  const variables = {}
  if (request.keys) variables['dynamodb:LeadingKeys'] = request.keys
  if (request.tag) variables['aws:PrincipalTag/zael_namespace_id'] = request.tag
  if (request.requestTag) variables['aws:RequestTag/zael_namespace_id'] = request.requestTag
  if (request.transaction) variables['dynamodb:EnclosingOperation'] = 'TransactWriteItems'
  return variables
}

async function verdict(request, policy) {
  const result = await runSimulation({
    request: {
      action: request.action,
      principal: `arn:aws:iam::${account}:role/tenant`,
      resource: { resource: request.arn, accountId: account },
      contextVariables: context(request)
    },
    identityPolicies: [{ name: 'policy', policy }],
    ...(request.trust && { resourcePolicy: request.trust }),
    serviceControlPolicies: [],
    resourceControlPolicies: []
  }, {})
  // A request without a resource needs a statement for all resources.
  if (request.arn === '*' && result.resultType === 'wildcard') return result.results.some((r) => r.resourcePattern === '*')
  if (result.resultType !== 'single') throw new Error(`${JSON.stringify(request)}: ${JSON.stringify(result)}`)
  // A condition on a key that the judge does not know for the action would not be judged.
  if (result.result.ignoredContextKeys.includes('dynamodb:LeadingKeys')) throw new Error(`${request.action} has no leading keys`)
  return result.overallResult === 'Allowed'
}

const verdicts = []
for (const request of requests) {
  verdicts.push(await Promise.all(policies.map((policy) => verdict(request, policy))))
}
process.stdout.write(JSON.stringify(verdicts))
