package import Glibc

extension SystemCall {
    /// Writes once.
    package static func write(_ descriptor: FileDescriptor, _ bytes: UnsafeRawBufferPointer) -> Outcome {
        outcome("write") { Glibc.write(descriptor.rawValue, bytes.baseAddress, bytes.count) }
    }

    /// What is known of a file, through symbolic links; nil when it is not there.
    package static func status(of path: String) -> stat? {
        var status = stat()
        return stat(path, &status) == 0 ? status : nil
    }

    package static func remove(_ path: String) throws(SystemError) {
        try value("unlink") { unlink(path) }
    }

    /// Sets the mode of a file that is no symbolic link.
    package static func setMode(_ mode: UInt32, of path: String) throws(SystemError) {
        try value("chmod") { fchmodat(AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW) }
    }
}
