"""The exercises: found, copied, checked, graded.

``exercises`` reads the folders, ``student`` and ``plugin`` are what their
tests use, ``examine`` runs these tests on somebody's file (``source`` says
whether Python can read it), ``desk`` keeps what a student has done,
``__main__`` is ``./learn.sh``. ``record`` and ``spoiled`` are for whoever
makes exercises. ``grade`` checks many: ``handed_in`` finds their files,
``protection`` (with ``limited``) is what stands around them, ``watcher``
ends what uses too much, ``copies`` says which are alike, ``reports`` and
``formats`` say what came of it.
"""
