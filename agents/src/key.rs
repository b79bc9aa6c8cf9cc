//! The key that controller and agents share: from a file or the environment, never from the command
//! line, which every user of the machine can read.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// The environment variable that holds the key.
pub const KEY_VARIABLE: &str = "TRUETAIL_KEY";
/// The shortest key, bytes: 16 random bytes in hexadecimal.
pub const KEY_BYTES_MIN: usize = 32;
/// The longest key, bytes.
pub const KEY_BYTES_MAX: usize = 1_024;

/// A key that controller and agents share: the SHA-256 of its text. A slower hash would only help
/// for texts that can be guessed.
#[derive(Clone)]
pub struct Key {
    hash: [u8; 32],
    /// The file that it came from, if it did.
    file: Option<PathBuf>,
}

/// Why there is no usable key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file can't be read.
    #[error("--key-file {file}: can't be read ({error}); check path and permissions")]
    Unreadable {
        /// The file.
        file: String,
        /// The reason.
        error: io::Error,
    },
    /// The key is too short or too long.
    #[error(
        "{place}: a key of {length} bytes, must be {KEY_BYTES_MIN} to {KEY_BYTES_MAX}; make one \
         with `openssl rand -hex 32`"
    )]
    Length {
        /// The flag and its file, or the variable.
        place: String,
        /// The length; of a longer file, one more than is allowed.
        length: usize,
    },
    /// An agent without a key would serve the network.
    #[error(
        "--listen {0}: an agent that others can reach needs a key; give --key-file or set \
         {KEY_VARIABLE}, or listen on 127.0.0.1"
    )]
    Exposed(SocketAddr),
}

impl Key {
    /// The key from `file`, or else from the environment, where `variable` is the value of
    /// [`KEY_VARIABLE`]; `None` if neither is given. Trailing white space isn't part of it.
    ///
    /// # Errors
    /// The file can't be read, or the key is too short or too long.
    pub fn find(file: Option<&Path>, variable: Option<&OsStr>) -> Result<Option<Key>, KeyError> {
        match file {
            Some(file) => Key::read(file).map(Some),
            None => variable.map(|value| Key::new(value.as_bytes(), KEY_VARIABLE)).transpose(),
        }
    }

    /// The key that its file has now, if that is another one. A pipe has given its key away and is
    /// never read again.
    ///
    /// # Errors
    /// Those of [`Key::find`].
    pub fn replaced(&self) -> Result<Option<Key>, KeyError> {
        let Some(file) = &self.file else { return Ok(None) };
        if fs::metadata(file).is_ok_and(|file| !file.is_file()) {
            return Ok(None);
        }
        let key = Key::read(file)?;
        Ok((key.hash != self.hash).then_some(key))
    }

    fn read(file: &Path) -> Result<Key, KeyError> {
        let shown = file.display().to_string();
        let mut text = Vec::new();
        // Room for white space; anything longer may be a device that never ends.
        File::open(file)
            .and_then(|file| file.take(KEY_BYTES_MAX as u64 + 2).read_to_end(&mut text))
            .map_err(|error| KeyError::Unreadable { file: shown.clone(), error })?;
        let key = Key::new(&text, &format!("--key-file {shown}"))?;
        Ok(Key { file: Some(file.to_owned()), ..key })
    }

    /// A key of this text, which was found at `place`.
    ///
    /// # Errors
    /// It is too short or too long.
    fn new(text: &[u8], place: &str) -> Result<Key, KeyError> {
        let key = text.trim_ascii_end();
        if (KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&key.len()) {
            return Ok(Key { hash: Sha256::digest(key).into(), file: None });
        }
        Err(KeyError::Length { place: place.to_owned(), length: key.len() })
    }

    /// Its bytes.
    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.hash
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Checks that an agent that others can reach at `address` has a key.
///
/// # Errors
/// Others can reach it, and it has none.
pub fn require_key(address: SocketAddr, key: Option<&Key>) -> Result<(), KeyError> {
    if key.is_some() || address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    Err(KeyError::Exposed(address))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_file_overrides_the_environment_and_neither_is_required() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("key");
        fs::write(&file, format!("{KEY}\r\n")).expect("written");
        let other = "another key that is as long as it must be";
        let variable = Some(OsStr::new(other));
        let found =
            |file, variable| Key::find(file, variable).expect("no error").map(|key| key.hash);
        let of = |text: &str| Some(Sha256::digest(text).into());
        assert_eq!(found(Some(&file), variable), of(KEY));
        assert_eq!(found(None, variable), of(other));
        assert_eq!(found(None, None), None);
        assert_eq!(format!("{:?}", Key::find(Some(&file), None)), "Ok(Some(Key(…)))");
    }

    #[test]
    fn a_key_is_replaced_by_what_its_file_holds() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        // As Kubernetes replaces a secret: the link to a folder is renamed.
        for (name, text) in [("one", KEY.to_owned()), ("two", format!("{KEY}2"))] {
            fs::create_dir(at(name)).expect("a folder");
            fs::write(at(name).join("key"), text).expect("written");
            symlink(name, at(&format!("to-{name}"))).expect("a link");
        }
        let to = |name: &str| fs::rename(at(name), at("secret")).expect("renamed");
        to("to-one");
        let file = at("secret").join("key");
        let key = Key::find(Some(&file), None).expect("no error").expect("a key");
        assert!(key.replaced().expect("no error").is_none());
        to("to-two");
        let new = key.replaced().expect("no error").expect("another");
        assert!(new.hash != key.hash && new.replaced().expect("no error").is_none());
        fs::write(&file, "short").expect("written");
        assert!(matches!(new.replaced(), Err(KeyError::Length { length: 5, .. })));
        fs::remove_file(&file).expect("it is ours");
        assert!(matches!(new.replaced(), Err(KeyError::Unreadable { .. })));
        let other = Key { file: Some("/dev/zero".into()), ..new };
        assert!(other.replaced().expect("not read").is_none());
        let of_variable = Key::find(None, Some(OsStr::new(KEY))).expect("no error");
        assert!(of_variable.expect("a key").replaced().expect("no file").is_none());
    }

    #[test]
    fn a_short_or_unreadable_key_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("key");
        let shown = file.display();
        let error = |file: &Path| Key::find(Some(file), None).expect_err("refused").to_string();
        assert!(
            error(&file).starts_with(&format!("--key-file {shown}: can't be read (No such file"))
        );
        for (text, length) in
            [("", 0), ("secret\n\n", 6), (&KEY[1..], 31), (&KEY.repeat(33), KEY_BYTES_MAX + 2)]
        {
            fs::write(&file, text).expect("written");
            let place = format!("--key-file {shown}: a key of {length} bytes, must be 32 to 1024");
            assert!(error(&file).starts_with(&place), "{}", error(&file));
        }
        assert!(error(Path::new("/dev/zero")).contains("a key of 1026 bytes"));
        let short = Key::find(None, Some(OsStr::new("short"))).expect_err("refused").to_string();
        let cure = "make one with `openssl rand -hex 32`";
        assert_eq!(short, format!("TRUETAIL_KEY: a key of 5 bytes, must be 32 to 1024; {cure}"));
    }

    #[test]
    fn an_agent_that_others_can_reach_needs_a_key() {
        let key = Key::new(KEY.as_bytes(), "").expect("a key");
        for (address, is_exposed) in [
            ("127.0.0.1:7070", false),
            ("127.9.9.9:7070", false),
            ("[::1]:7070", false),
            ("[::ffff:127.0.0.1]:7070", false),
            ("0.0.0.0:7070", true),
            ("[::]:7070", true),
            ("10.0.0.1:7070", true),
            ("[::ffff:10.0.0.1]:7070", true),
        ] {
            let address: SocketAddr = address.parse().expect("an address");
            assert_eq!(require_key(address, None).is_err(), is_exposed, "{address}");
            assert!(require_key(address, Some(&key)).is_ok(), "{address}");
        }
        let exposed = KeyError::Exposed("0.0.0.0:7070".parse().expect("an address")).to_string();
        assert_eq!(
            exposed,
            "--listen 0.0.0.0:7070: an agent that others can reach needs a key; give --key-file or \
             set TRUETAIL_KEY, or listen on 127.0.0.1"
        );
    }
}
