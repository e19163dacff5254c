// The stack of zae-limiter in an application of the AWS CDK. Make the two files first:
//
//   zae-limiter template -n limits -o template.yaml
//   zae-limiter lambda-export --binary ./zae-limiter -o functions.zip

import * as path from 'path';
import { App, Stack, StackProps } from 'aws-cdk-lib';
import { Asset } from 'aws-cdk-lib/aws-s3-assets';
import { CfnInclude } from 'aws-cdk-lib/cloudformation-include';
import { Construct } from 'constructs';

class Limits extends Stack {
  constructor(scope: Construct, id: string, props: StackProps) {
    super(scope, id, props);
    // The CDK uploads the zip under a key that has its hash, so new code changes the stack.
    const functions = new Asset(this, 'Functions', { path: path.join(__dirname, 'functions.zip') });
    new CfnInclude(this, 'Limiter', {
      templateFile: path.join(__dirname, 'template.yaml'),
      parameters: {
        CodeBucket: functions.s3BucketName,
        CodeKey: functions.s3ObjectKey,
        EnableIAMRoles: 'true',
      },
    });
  }
}

// The name of the stack is the name of the table.
new Limits(new App(), 'Limits', { stackName: 'limits' });
