package dynamo

import "github.com/aws/aws-sdk-go-v2/service/dynamodb"

// NewSigner makes the signer of NewClient.
func NewSigner() dynamodb.HTTPSignerV4 { return newSigner() }
