"""The exercises: found, copied, checked, graded.

``exercises`` reads the folders, ``student`` and ``plugin`` are what their
tests use, ``examine`` runs these tests on somebody's file, ``desk`` keeps
what a student has done, ``__main__`` is ``./learn.sh``. ``record`` is for
whoever makes exercises.
``grade`` checks many: ``handed_in`` finds their files, ``cage`` stands
around them, ``reports`` says what came of it.
"""
