package fastclient_test

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
)

// The client of a table on AWS. A program gets cfg from config.LoadDefaultConfig of the AWS
// SDK, which finds region and credentials, and passes the options to dynamo.Open.
func ExampleNew() {
	cfg := aws.Config{Region: "eu-central-1"}
	client := fastclient.New(cfg)
	options := dynamo.Options{API: client, Table: "limits"}
	fmt.Println(options.Table, "in", client.Options().Region)
	// Output: limits in eu-central-1
}
