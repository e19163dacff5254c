// Package customresource applies manifests for AWS CloudFormation, and for the Python
// peer's command line. [Handler.Handle] takes the event of a Lambda function.
//
// It serves the resource types Custom::ZaeLimits and the peer's
// Custom::ZaeLimiterLimits. Both have the properties of a manifest in CloudFormation's
// spelling: Namespace (or NamespaceId), Name, System, Resources and Entities, with
// OnUnavailable, Limits, Capacity, RefillAmount, RefillPeriod and Burst. CloudFormation
// sends numbers as strings.
//
// Create and Update apply the manifest. They delete levels that the resource owns and
// does not declare any more. A level that failed fails the resource, and the next update
// completes it. Delete deletes every level that the resource owns. It succeeds without
// the namespace or its table, because a stack that cannot be deleted helps nobody.
package customresource
