// Package cfntest is a CloudFormation in memory, for tests. Its stacks have the states, events,
// resources and outputs that programs see while they deploy, and a test says which changes fail:
// see [Cloud.Fail] and [Cloud.Fault]. It also has the parts of S3, Lambda, ECS and the tagging
// API that deployments call: for instance, a stack can be deleted only if its buckets are empty.
//
// It does not judge templates: package template evaluates them, cfn-lint judges them, and
// conformance tests deploy them to LocalStack and moto. It knows neither quotas, nor most
// constraints of parameters, nor which change replaces a resource, but for what
// [replaces] says.
//
// Operations progress with the clock of [Options.Now]: each resource takes [Options.Step]. A
// [Cloud] starts no goroutine; a call first does what was due before it.
package cfntest
