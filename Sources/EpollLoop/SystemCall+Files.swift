package import Glibc

// MARK: - Files

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

// MARK: - Sockets in files, and of one interface

extension SystemCall {
    /// Lets a socket hear of one network interface alone.
    package static func bindToDevice(_ socket: FileDescriptor, _ name: String) throws(SystemError) {
        try value("setsockopt") {
            name.withCString { setsockopt(socket.rawValue, SOL_SOCKET, SO_BINDTODEVICE, $0, socklen_t(name.utf8.count)) }
        }
    }

    /// A second descriptor of the same socket.
    package static func duplicate(_ descriptor: FileDescriptor) throws(SystemError) -> FileDescriptor {
        FileDescriptor(rawValue: Int32(try value("fcntl") { fcntl(descriptor.rawValue, F_DUPFD_CLOEXEC, 0) }))
    }
}
