internal import Glibc
internal import Platform

extension ListenAddress {
    /// Tries whether a listener could be opened, without anybody being able to connect: each address is bound for a moment and not listened
    /// on, and no file is made, removed or connected to.
    ///
    /// - Returns: what stands in the way, nil for nothing; of several addresses the first one's.
    public func obstacle() -> ListenError? {
        let addresses: [SocketAddress]
        do throws(ResolutionError) {
            addresses = try resolve()
        } catch {
            return .unresolved(error)
        }
        var passedOver: ListenError?
        var isPossible = false
        for address in addresses {
            do throws(SystemError) {
                try tryOut(address)
                isPossible = true
            } catch {
                let refusal = ListenError.refused(address, error)
                guard Self.isMissingFamily(error), addresses.count > 1 else { return refusal }
                passedOver = refusal
            }
        }
        return isPossible ? nil : passedOver
    }

    /// Whether this one and another cannot be open at once: they have an address in common, or one of them has all addresses of the port. One
    /// that has no address has none in common with any.
    public func collides(with other: ListenAddress) -> Bool {
        guard port == other.port else { return false }
        if let interface, let device = other.interface, interface != device { return false }
        guard let own = try? resolve(), let others = try? other.resolve() else { return false }
        return own.contains { address in others.contains { address.collides(with: $0) } }
    }

    private func tryOut(_ address: SocketAddress) throws(SystemError) {
        if let path = address.path { return try UnixSocketFile.tryOut(path, for: address) }
        let socket = try SystemCall.createSocket(family: address.family)
        defer { socket.close() }
        if let interface { try SystemCall.bindToDevice(socket, interface) }
        try SystemCall.setOption(socket, level: SOL_SOCKET, option: SO_REUSEADDR, to: 1)
        if address.family == AF_INET6 { try SystemCall.setOption(socket, level: Int32(IPPROTO_IPV6), option: IPV6_V6ONLY, to: 1) }
        try SystemCall.bind(socket, to: address.storage, length: address.length)
    }
}

extension SocketAddress {
    fileprivate func collides(with other: SocketAddress) -> Bool {
        if let path { return path == other.path }
        guard family == other.family, port == other.port, port > 0 else { return false }
        let hosts = [endpoint.host, other.endpoint.host]
        return hosts[0] == hosts[1] || !["0.0.0.0", "::"].filter(hosts.contains).isEmpty
    }
}

extension UnixSocketFile {
    /// Throws what would keep a socket from being bound at a path. Asks the kernel's table and not the socket, which is somebody's.
    static func tryOut(_ path: String, for address: SocketAddress) throws(SystemError) {
        if let status = SystemCall.status(of: path) {
            guard status.st_mode & S_IFMT == S_IFSOCK else { throw SystemError(errno: EADDRINUSE, operation: "bind") }
            if SocketHolder.of(address) != nil { throw SystemError(errno: EADDRINUSE, operation: "bind") }
        }
        let directory = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        switch FileAccess.obstacle(toMakingFilesIn: directory) {
        case nil: return
        case .missingDirectory: throw SystemError(errno: ENOENT, operation: "bind")
        case .notDirectory: throw SystemError(errno: ENOTDIR, operation: "bind")
        case .readOnlyFileSystem: throw SystemError(errno: EROFS, operation: "bind")
        default: throw SystemError(errno: EACCES, operation: "bind")
        }
    }
}
