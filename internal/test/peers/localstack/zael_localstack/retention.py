"""Lets LocalStack keep what a template retains except on creation.

LocalStack knows only the policy Retain, and deletes a resource of the policy
RetainExceptOnCreate with its stack. AWS keeps it, unless the operation that made it fails.
LocalStack never rolls back, so Retain is the same here.
"""

from localstack.runtime import hooks


@hooks.on_infra_start()
def retain_except_on_create():
    from localstack.services.cloudformation.engine.v2.change_set_model_preproc import DeletionPolicy, PreprocResource

    make = PreprocResource.__init__

    def make_retained(self, *args, **kwargs):
        make(self, *args, **kwargs)
        if self.deletion_policy == DeletionPolicy.RetainExceptOnCreate:
            self.deletion_policy = DeletionPolicy.Retain

    PreprocResource.__init__ = make_retained
