"""The `ObjectStore` port over obstore: a folder, a bucket, or memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError, UnauthenticatedError
from obstore.store import LocalStore, MemoryStore, S3Store
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from batch_assets.domain.canonical import digest_of_bytes
from batch_assets.domain.errors import InvalidKey, InvalidSettings, ObjectConflict, ObjectMissing, StoreUnavailable
from batch_assets.domain.ports import ObjectInfo
from resources.result_store.config import S3Config
from resources.result_store.keys import checked_folder, checked_key
from resources.result_store.local import create_file, prepare_folder

if TYPE_CHECKING:
    from obstore import ObjectMeta

T = TypeVar("T")

RETRY_FOR_S = 60.0
_OPENING_S = 5.0


class _Unsettled(Exception):
    """Someone else's PUT of the same key is under way, or was undone: nothing stands, nothing was written."""


# What may pass: 5xx, slow-down, resets, timeouts (obstore has one class for these), a credential source that stumbles.
_S3_PASSING = (GenericError, UnauthenticatedError, _Unsettled)


class ObstoreResultStore:
    """Immutable objects. Safe to use from many threads; each call retries for `retry_for_s` seconds what may pass."""

    def __init__(
        self,
        store: LocalStore | S3Store | MemoryStore,
        *,
        base_uri: str,
        create: Callable[[str, bytes], object],
        passing: tuple[type[Exception], ...] = (_Unsettled,),
        retry_for_s: float = RETRY_FOR_S,
    ) -> None:
        self._store = store
        self._base_uri = base_uri
        self._create = create
        self._passing = passing
        self._retry_for_s = retry_for_s

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write `data` unless the key stands. True: written; False: the very same bytes stood (a lost answer).

        Raises:
            ObjectConflict: other bytes stand under the key. StoreFull, StoreUnavailable: not known to be written.
        """
        return self._retried(partial(self._put_once, checked_key(key), data), "write", key)

    def get(self, key: str) -> bytes:
        """Return an object's bytes.

        Raises:
            ObjectMissing: there is no such object. StoreUnavailable: no answer.
        """
        try:
            return self._retried(partial(self._get_once, checked_key(key)), "read", key)
        except FileNotFoundError:
            raise ObjectMissing(f"there is no object {self.uri(key)}") from None

    def head(self, key: str) -> ObjectInfo | None:
        """Return the object's size, or None."""
        try:
            meta = self._retried(partial(obstore.head, self._store, checked_key(key)), "look up", key)
        except FileNotFoundError:
            return None
        return _info(meta, key)

    def list(self, prefix: str) -> list[ObjectInfo]:
        """Return every object below the folder `prefix` (empty: all), sorted by key."""
        found = self._retried(partial(self._list_once, checked_folder(prefix)), "list", prefix)
        return sorted(found, key=lambda item: item.key)

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is removed already."""
        try:
            self._retried(partial(obstore.delete, self._store, checked_key(key)), "delete", key)
        except FileNotFoundError:
            return

    def uri(self, key: str) -> str:
        """Return what DuckDB and Polars open: an absolute path or an `s3://` address (`memory://` opens nowhere)."""
        return f"{self._base_uri}/{checked_key(key)}"

    def _put_once(self, key: str, data: bytes) -> bool:
        try:
            self._create(key, data)
        except (AlreadyExistsError, FileExistsError):  # 412, and 409, which does not say that anything stands
            return self._is_ours(key, data)
        except FileNotFoundError as error:  # the bucket or the root folder went away
            raise StoreUnavailable(f"cannot write {self.uri(key)}: {_first_line(error)}") from error
        return True

    def _is_ours(self, key: str, data: bytes) -> bool:
        try:
            standing = self._get_once(key)
        except FileNotFoundError:
            raise _Unsettled from None
        if standing != data:
            there, here = digest_of_bytes(standing), digest_of_bytes(data)
            raise ObjectConflict(f"{self.uri(key)} stands with other content: {there} there, {here} here")
        return False

    def _get_once(self, key: str) -> bytes:
        return bytes(obstore.get(self._store, key).bytes())

    def _list_once(self, folder: str) -> Sequence[ObjectInfo]:
        pages = obstore.list(self._store, prefix=folder or None)
        return [_info(item, item["path"]) for page in pages for item in page]

    def _retried(self, call: Callable[[], T], verb: str, key: str) -> T:
        retrying = Retrying(
            retry=retry_if_exception_type(self._passing),
            stop=stop_after_delay(self._retry_for_s),
            wait=wait_random_exponential(multiplier=0.2, max=5),
            reraise=True,
        )
        try:
            return retrying(call)
        except (BaseError, _Unsettled) as error:
            self._give_up(error, verb, key)

    def _give_up(self, error: Exception, verb: str, key: str) -> NoReturn:
        waited = f" for {self._retry_for_s:g} s" if isinstance(error, self._passing) else ""
        reason = _first_line(error) or "the key is contended: every try was refused, and nothing stands under it"
        raise StoreUnavailable(f"cannot {verb} {self._base_uri}/{key}{waited}: {reason}") from error


def open_result_store(uri: str, s3: S3Config | None = None, *, retry_for_s: float = RETRY_FOR_S) -> ObstoreResultStore:
    """Open a store and prove that it can be used; `uri` is a path, `file://`, `s3://bucket/prefix` or `memory://`.

    Raises:
        InvalidSettings: it cannot be used; the message says what to do. StoreUnavailable: its server does not answer.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return _open_folder(uri)
    match scheme:
        case "s3":
            bucket, _, prefix = rest.partition("/")
            return _open_bucket(bucket, prefix.strip("/"), s3, retry_for_s)
        case "file" if urlsplit(uri).netloc in {"", "localhost"}:
            return _open_folder(url2pathname(urlsplit(uri).path))
        case "memory":
            memory = MemoryStore()
            return ObstoreResultStore(memory, base_uri="memory:/", create=partial(_create_object, memory))
    raise InvalidSettings(f"result store {uri!r}: it must be a folder, file:///folder, s3://bucket/prefix or memory://")


def _open_folder(path: str) -> ObstoreResultStore:
    if not path:
        raise InvalidSettings(
            "the result store is empty: set BATCH_ASSETS_RESULT_STORE to a folder or s3://bucket/prefix"
        )
    root = prepare_folder(Path(path).expanduser().absolute())
    return ObstoreResultStore(LocalStore(root), base_uri=str(root), create=partial(create_file, root))


def _open_bucket(bucket: str, prefix: str, s3: S3Config | None, retry_for_s: float) -> ObstoreResultStore:
    # boto3 takes as long to import as everything else that a look at a local store needs.
    from resources.result_store.aws import check_bucket, open_bucket, resolve  # noqa: PLC0415

    if not bucket:
        raise InvalidSettings("result store s3://: it names no bucket; write s3://bucket/prefix")
    try:
        checked_folder(prefix)
    except InvalidKey as error:
        raise InvalidSettings(f"result store s3://{bucket}/{prefix}: {error}") from None
    access = resolve(s3)
    # Every retry is made above, in one place: obstore's own would not repeat a PUT that timed out.
    store = open_bucket(access, bucket, prefix=prefix, retry_config={"max_retries": 0})
    check_bucket(access, bucket, prefix)
    opened = partial(
        ObstoreResultStore,
        store,
        base_uri=f"s3://{bucket}/{prefix}".removesuffix("/"),
        create=partial(_create_object, store),
        passing=_S3_PASSING,
    )
    # Once the way that the objects go, too: it has its own TLS roots, and does not follow a bucket to another region.
    opened(retry_for_s=min(retry_for_s, _OPENING_S)).head(".trial")
    return opened(retry_for_s=retry_for_s)


def _info(meta: ObjectMeta, key: str) -> ObjectInfo:
    return ObjectInfo(key=key, size_bytes=meta["size"], modified_at_s=meta["last_modified"].timestamp())


def _create_object(store: S3Store | MemoryStore, key: str, data: bytes) -> None:
    obstore.put(store, key, data, mode="create", use_multipart=False)


def _first_line(error: Exception) -> str:
    """Return what happened, without obstore's dump of its internals and with the server's own code, if it said one."""
    text = str(error)
    code = re.search(r"<Code>(\w+)</Code>", text)
    line = text.partition("\n")[0].partition(": <")[0]
    return f"{line} ({code.group(1)})" if code else line
