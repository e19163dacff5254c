"""Lets LocalStack import resources into a new stack.

LocalStack answers a change set of the type IMPORT with NotImplementedError. Here it is a
change set that creates the stack, and that reads each resource instead of making it. As on
AWS, the template has nothing but the resources to import, and nothing compares them with it.

LocalStack does not know the status IMPORT_COMPLETE either: it would call a stack new that a
change set is to update after its import.
"""

import functools

from localstack.runtime import hooks

# What a status of a creation is called in an import. LocalStack calls the end of everything
# but a creation UPDATE_COMPLETE.
STACK = {"CREATE_IN_PROGRESS": "IMPORT_IN_PROGRESS", "CREATE_FAILED": "IMPORT_ROLLBACK_IN_PROGRESS",
         "ROLLBACK_COMPLETE": "IMPORT_ROLLBACK_COMPLETE", "UPDATE_COMPLETE": "IMPORT_COMPLETE"}
RESOURCE = {"CREATE_IN_PROGRESS": "IMPORT_IN_PROGRESS", "CREATE_FAILED": "IMPORT_FAILED",
            "CREATE_COMPLETE": "IMPORT_COMPLETE"}


def table(clients, identifier):
    there = clients.dynamodb.describe_table(**identifier)["Table"]
    return {**identifier, "Arn": there["TableArn"], "StreamArn": there["LatestStreamArn"]}


def bucket(clients, identifier):
    clients.s3.head_bucket(Bucket=identifier["BucketName"])
    return {**identifier, "Arn": f"arn:aws:s3:::{identifier['BucketName']}"}


def bucket_policy(clients, identifier):
    clients.s3.get_bucket_policy(**identifier)
    return {**identifier, "Id": identifier["Bucket"]}


# The properties of what a ResourceToImport identifies, by its type.
READ = {"AWS::DynamoDB::Table": table, "AWS::S3::Bucket": bucket, "AWS::S3::BucketPolicy": bucket_policy}


@hooks.on_infra_start()
def import_resources():
    from localstack.aws.api.cloudformation import ChangeAction, ChangeSetType, ResourceStatus, StackStatus
    from localstack.services.cloudformation.engine.v2.change_set_model_describer import ChangeSetModelDescriber
    from localstack.services.cloudformation.engine.v2.change_set_model_executor import ChangeSetModelExecutor
    from localstack.services.cloudformation.engine.validations import ValidationError
    from localstack.services.cloudformation.models import get_cloudformation_store
    from localstack.services.cloudformation.resource_provider import (
        OperationStatus, ProgressEvent, ResourceProviderExecutor, convert_payload)
    from localstack.services.cloudformation.v2.entities import ChangeSet, Stack
    from localstack.services.cloudformation.v2.provider import CloudformationProviderV2, find_change_set_v2

    ChangeSet.imports = {}  # what identifies the resources to import, by logical ID
    Stack.importing = False  # whether its newest change set imports

    def instead_of(cls):
        """Replaces the method of the function's name. The function gets the method first."""
        def replace(function):
            method = getattr(cls, function.__name__)
            setattr(cls, function.__name__, functools.wraps(method)(
                lambda *args, **kwargs: function(method, *args, **kwargs)))
        return replace

    @instead_of(CloudformationProviderV2)
    def create_change_set(method, self, context, request):
        imports = request.get("ChangeSetType") == ChangeSetType.IMPORT
        made = method(self, context, {**request, "ChangeSetType": ChangeSetType.CREATE} if imports else request)
        change_set = find_change_set_v2(get_cloudformation_store(context.account_id, context.region), made["Id"])
        change_set.stack.importing = imports
        if imports:
            change_set.change_set_type = ChangeSetType.IMPORT
            change_set.imports = {r["LogicalResourceId"]: r["ResourceIdentifier"] for r in request["ResourcesToImport"]}
            if change_set.imports.keys() != change_set.template["Resources"].keys() or "Outputs" in change_set.template:
                raise ValidationError("the template of an import has something else than the resources to import")
        return made

    @instead_of(ChangeSetModelDescriber)
    def _register_resource_change(method, self, logical_id, *args, **kwargs):
        method(self, logical_id, *args, **kwargs)
        if identifier := self._change_set.imports.get(logical_id):
            self._changes[-1]["ResourceChange"] |= {
                "Action": ChangeAction.Import, "PhysicalResourceId": next(iter(identifier.values()))}

    @instead_of(ChangeSetModelExecutor)
    def create_resource_provider_payload(method, self, *args, **kwargs):
        payload = method(self, *args, **kwargs)
        payload["identifier"] = self._change_set.imports.get(payload["requestData"]["logicalResourceId"])
        return payload

    @instead_of(ResourceProviderExecutor)
    def execute_action(method, self, provider, raw_payload):
        identifier = raw_payload.get("identifier")
        if identifier is None:
            return method(self, provider, raw_payload)
        request = convert_payload(stack_name=self.stack_name, stack_id=self.stack_id, payload=raw_payload)
        return ProgressEvent(OperationStatus.SUCCESS, READ[request.resource_type](request.aws_client_factory, identifier))

    @instead_of(Stack)
    def set_stack_status(method, self, status, reason=None):
        if status == StackStatus.REVIEW_IN_PROGRESS and self.status == StackStatus.IMPORT_COMPLETE:
            return
        method(self, StackStatus(STACK.get(status, status)) if self.importing else status, reason)

    @instead_of(Stack)
    def set_resource_status(method, self, *, status, **kwargs):
        method(self, status=ResourceStatus(RESOURCE.get(status, status)) if self.importing else status, **kwargs)
