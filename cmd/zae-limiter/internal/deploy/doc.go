// Package deploy describes the stack that a rate limiter needs on AWS. It has one
// CloudFormation template with its parameters and tags, the names of what is in it, and
// the zip of the Lambda functions' code. The package sends nothing; deploy/stack and the
// command line do.
//
// [New] checks [Options] and returns a [Spec]:
//
//	o := deploy.Defaults()
//	o.Name = "limits"
//	spec, err := deploy.New(o)
//	…
//	spec.Template()   // as CloudFormation receives it
//	spec.Parameters() // every parameter of the template, with its value
//	spec.Tags()       // the user's and the project's
//
// [OptionTable] has a row for each option: its default, bounds and text, its parameter in the
// template, and its flag.
//
// The template keeps the logical IDs, physical names, parameters, outputs and exports of the
// Python peer's template. A stack of the peer therefore takes it as an update: see
// [Options.KeepPeer]. It adds parameters and resources, and one difference needs care: the
// functions are Linux programs, whose code is in a bucket.
//
// # Code
//
// Without CodeKey the stack has no functions. A first deployment makes the table and the
// buckets; then the deployer writes the zip under [Artefact.Key] to the code bucket, and a
// second change set sets CodeKey (ADR 033). New code is a new key, so the update of the stack also
// rolls the code back if it fails.
package deploy
