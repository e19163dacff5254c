"""Repairs two faults of LocalStack's change sets, both about attributes of resources.

LocalStack evaluates every output in the state before the change, too, without regard to
the output's condition. An output of a resource that the change adds then fails the change
set. CloudFormation evaluates no output whose condition is false.

Where a change gives a resource a condition of another name, LocalStack looks for the old
name in the state after the change, and takes the resource for absent.
"""

from localstack.runtime import hooks


@hooks.on_infra_start()
def repair_change_sets():
    from localstack.services.cloudformation.engine.v2.change_set_model import Nothing
    from localstack.services.cloudformation.engine.v2.change_set_model_preproc import ChangeSetModelPreproc
    from localstack.services.cloudformation.engine.validations import ValidationError

    resolve = ChangeSetModelPreproc._resolve_attribute

    def resolve_or_nothing(self, arguments, select_before):
        try:
            return resolve(self, arguments=arguments, select_before=select_before)
        except ValidationError:
            if select_before:
                return Nothing  # the resource did not exist before the change
            return attribute_after(self, arguments)

    def attribute_after(self, arguments):
        name, *attribute = arguments.split(".") if isinstance(arguments, str) else arguments
        resource = self._get_node_resource_for(
            resource_name=name, node_template=self._change_set.update_model.node_template)
        if not self._resolve_resource_condition_reference(resource.condition_reference).after:
            raise ValidationError(f"{name} does not exist after the change, and something refers to its attribute")
        return self._after_deployed_property_value_of(
            resource_logical_id=name, property_name=".".join(attribute))

    ChangeSetModelPreproc._resolve_attribute = resolve_or_nothing
