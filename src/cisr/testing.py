"""What users call in their own tests:

from cisr.testing import check_task

def test_my_task_keeps_its_promises():
    assert not check_task(my_task)
"""

from cisr.auditing.contracts import ContractViolation, check_task

__all__ = ["ContractViolation", "check_task"]
