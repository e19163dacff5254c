package stack

// Logical IDs of the template that this package knows. Stacks of the Python package have the
// same IDs for the same resources.
const (
	// TableID is the table.
	TableID = "RateLimitsTable"
	// ArchiveID is the bucket of archived audit events.
	ArchiveID = "AuditArchiveBucket"
	// CodeBucketID is the bucket of the functions' code.
	CodeBucketID = "FunctionCodeBucket"

	// archivePolicyID is the policy of the archive.
	archivePolicyID = "AuditArchiveBucketPolicy"
)

// Outputs of the template that programs read.
const (
	OutputTable      = "TableName"
	OutputAggregator = "AggregatorFunctionName"
	// OutputProvisioner is the function that sets limits for CloudFormation.
	OutputProvisioner = "ProvisionerFunctionName"
	// OutputArchive is the bucket of archived audit events.
	OutputArchive = "AuditArchiveBucketName"
	// OutputCodeBucket is the bucket of the code. Stacks of the Python package name their
	// archive there.
	OutputCodeBucket = "CodeBucketName"
	// OutputQueue is the URL of the queue of dead letters.
	OutputQueue = "AggregatorDLQUrl"
)

// ParameterCodeKey is the parameter with the S3 key of the functions' code. A stack without
// a code key has no functions.
const ParameterCodeKey = "CodeKey"

// Tags by which tools find stacks, this program and the Python package alike.
const (
	TagManagedBy = "ManagedBy"
	TagName      = "zae-limiter:name"
	TagType      = "zae-limiter:type"
	TagVersion   = "zae-limiter:version"

	// ManagedBy is the value of [TagManagedBy].
	ManagedBy = "zae-limiter"
	// TypeLimiter is the value of [TagType] on a limiter's stack.
	TypeLimiter = "limiter"
	// TypeLoadTest is the value of [TagType] on a stack for load tests of a limiter.
	TypeLoadTest = "load-test"
	// LoadSuffix follows the name of a limiter's stack in that of its stack for load tests.
	LoadSuffix = "-load"
	// LegacyPrefix begins the names of stacks of early versions of the Python package.
	LegacyPrefix = "ZAEL-"
)

// Resource types.
const (
	typeTable        = "AWS::DynamoDB::Table"
	typeGlobalTable  = "AWS::DynamoDB::GlobalTable"
	typeBucket       = "AWS::S3::Bucket"
	typeBucketPolicy = "AWS::S3::BucketPolicy"
	typeStack        = "AWS::CloudFormation::Stack"
	typeFunction     = "AWS::Lambda::Function"
)

// isData reports whether a resource holds data that a user cannot make again: a table, or a
// bucket other than that of the code.
func isData(logicalID, resourceType string) bool {
	switch resourceType {
	case typeTable, typeGlobalTable:
		return true
	case typeBucket:
		return logicalID != CodeBucketID
	}
	return false
}
