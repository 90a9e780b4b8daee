"""What a page element raises when it cannot do its job."""


class SiteError(Exception):
    """A page asks for something that is not there; the text says what."""
