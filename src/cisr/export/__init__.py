"""What other programs read: tables, Optuna's storage, TensorBoard's log, and students as policies without cisr.

Everything is read from a store, or from a student that is ready to act, and written as a whole or not at all. The
libraries of other programs are imported when they are asked for, as are all names of this room.

May import view and below; knows nothing of terminals.
"""

from typing import TYPE_CHECKING

from cisr.core.libraries import late

if TYPE_CHECKING:
    from cisr.export.optuna_study import export_optuna
    from cisr.export.students import export_stored_student
    from cisr.export.table_files import export_tables
    from cisr.export.tensorboard_log import TensorBoard, export_tensorboard
else:
    __getattr__ = late(
        __name__,
        {
            "TensorBoard": "cisr.export.tensorboard_log",
            "export_optuna": "cisr.export.optuna_study",
            "export_stored_student": "cisr.export.students",
            "export_tables": "cisr.export.table_files",
            "export_tensorboard": "cisr.export.tensorboard_log",
        },
    )

__all__ = ["TensorBoard", "export_optuna", "export_stored_student", "export_tables", "export_tensorboard"]
