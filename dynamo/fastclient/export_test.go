package fastclient

import "github.com/aws/aws-sdk-go-v2/service/dynamodb"

// NewSigner returns the signer that New uses.
func NewSigner() dynamodb.HTTPSignerV4 { return newSigner() }
