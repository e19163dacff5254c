package dynamo

import "github.com/aws/aws-sdk-go-v2/service/dynamodb"

// NewSigner returns the signer that NewClient uses.
func NewSigner() dynamodb.HTTPSignerV4 { return newSigner() }
