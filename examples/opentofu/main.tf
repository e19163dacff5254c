# The stack of zae-limiter, deployed by OpenTofu. Make the two files first:
#
#   zae-limiter template -n limits --compact -o template.yaml --parameters parameters.json
#   zae-limiter lambda-export --binary ./zae-limiter -o functions.zip
#
# The zip needs a bucket that exists before the stack. Its key has the checksum of the zip,
# so new code changes the stack.

terraform {
  required_version = ">= 1.6"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "name" {
  type        = string
  default     = "limits"
  description = "Name of the stack and of its table; template -n must have the same."
}

variable "alarm_topic" {
  type        = string
  default     = ""
  description = "ARN of the SNS topic that the alarms notify; empty notifies nobody."
}

locals {
  parameters = {
    for p in jsondecode(file("${path.module}/parameters.json")) : p.ParameterKey => p.ParameterValue
  }
}

resource "aws_s3_bucket" "code" {
  bucket_prefix = "${var.name}-code-"
}

resource "aws_s3_object" "functions" {
  bucket = aws_s3_bucket.code.id
  key    = "functions/${filesha256("${path.module}/functions.zip")}.zip"
  source = "${path.module}/functions.zip"
}

resource "aws_cloudformation_stack" "limits" {
  name          = var.name
  template_body = file("${path.module}/template.yaml")
  capabilities  = ["CAPABILITY_NAMED_IAM"]

  parameters = merge(local.parameters, {
    AlarmSNSTopicArn = var.alarm_topic
    CodeBucket       = aws_s3_bucket.code.id
    CodeKey          = aws_s3_object.functions.key
  })

  tags = {
    ManagedBy          = "zae-limiter"
    "zae-limiter:name" = var.name
    "zae-limiter:type" = "limiter"
  }
}

output "table" {
  value = aws_cloudformation_stack.limits.outputs["TableName"]
}
