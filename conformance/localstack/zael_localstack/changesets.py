"""Repairs LocalStack's change sets for outputs whose condition becomes true.

LocalStack evaluates every output in the state before the change, too, without regard to
the output's condition. An output of a resource that the change adds then fails the change
set. CloudFormation evaluates no output whose condition is false.
"""

from localstack.runtime import hooks


@hooks.on_infra_start()
def tolerate_absent_resources():
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
            raise

    ChangeSetModelPreproc._resolve_attribute = resolve_or_nothing
