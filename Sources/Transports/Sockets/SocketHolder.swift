internal import Glibc
internal import Platform

/// The process that listens at an address of this machine, as far as /proc shows it to this process.
public struct SocketHolder: Sendable, Equatable {
    /// The user that opened the socket.
    public let user: UInt32?
    /// nil when the process is another user's, whose descriptors are not shown.
    public internal(set) var processIdentifier: Int32?
    /// The name of its program.
    public internal(set) var program: String?
    /// The systemd service that it belongs to, such as `mosquitto.service`.
    public internal(set) var service: String?
    /// Its command line, and the directory that it works in.
    public internal(set) var arguments: [String] = []
    public internal(set) var directory: String?

    /// Whether it is this process.
    public var isThisProcess: Bool { processIdentifier == getpid() }

    /// The process that listens at an address, or at one that takes its port away; nil when none is found.
    public static func of(_ address: SocketAddress) -> SocketHolder? {
        guard let (node, user) = address.path.map(unixSocket) ?? internetSocket(address) else { return nil }
        var holder = SocketHolder(user: user)
        for name in SystemCall.names(inDirectory: "/proc") ?? [] {
            guard let number = Int32(name),
                let descriptors = SystemCall.names(inDirectory: "/proc/\(name)/fd"),
                descriptors.contains(where: { SystemCall.target(ofLink: "/proc/\(name)/fd/\($0)") == "socket:[\(node)]" })
            else { continue }
            holder.processIdentifier = number
            holder.program = lines(of: "/proc/\(name)/comm").first
            holder.arguments = text(of: "/proc/\(name)/cmdline").split(separator: "\0").map(String.init)
            holder.directory = SystemCall.target(ofLink: "/proc/\(name)/cwd")
            holder.service = lines(of: "/proc/\(name)/cgroup").lazy.compactMap { $0.split(separator: "/").last }
                .first { $0.hasSuffix(".service") && !$0.hasPrefix("user@") }.map(String.init)
            break
        }
        return holder
    }

    /// The inode of the listening socket that has the port, and its user.
    private static func internetSocket(_ address: SocketAddress) -> (node: String, user: UInt32?)? {
        let port = hexadecimal(UInt32(address.port), digits: 4)
        let own = numbers(of: address)
        for table in address.family == AF_INET6 ? ["tcp6"] : ["tcp", "tcp6"] {
            for line in lines(of: "/proc/net/\(table)").dropFirst() {
                let fields = line.split(separator: " ")
                guard fields.count > 9, fields[3] == "0A" else { continue }
                let local = fields[1].split(separator: ":")
                guard local.count == 2, local[1] == port else { continue }
                let isWild = own.allSatisfy { $0 == "0" } || local[0].allSatisfy { $0 == "0" }
                if isWild || local[0] == own { return (String(fields[9]), UInt32(fields[7])) }
            }
        }
        return nil
    }

    private static func unixSocket(_ path: String) -> (node: String, user: UInt32?)? {
        for line in lines(of: "/proc/net/unix").dropFirst() {
            let fields = line.split(separator: " ", maxSplits: 7)
            // Bit 16 of the flags: it accepts connections.
            guard fields.count == 8, fields[7] == path, UInt32(fields[3], radix: 16).map({ $0 & 0x10000 != 0 }) ?? false else {
                continue
            }
            return (String(fields[6]), SystemCall.status(of: path)?.st_uid)
        }
        return nil
    }

    /// The address as /proc/net writes it: each word of four bytes as a number of this machine.
    private static func numbers(of address: SocketAddress) -> String {
        withUnsafeBytes(of: address.storage) { bytes in
            let (offset, words) = address.family == AF_INET6 ? (8, 4) : (4, 1)
            return (0..<words).map { word in
                hexadecimal(bytes.loadUnaligned(fromByteOffset: offset + 4 * word, as: UInt32.self), digits: 8)
            }.joined()
        }
    }

    private static func hexadecimal(_ number: UInt32, digits: Int) -> String {
        let text = String(number, radix: 16, uppercase: true)
        return String(repeating: "0", count: digits - text.utf8.count) + text
    }

    private static func text(of path: String) -> String {
        String(decoding: (try? WholeFile.bytes(of: path, bytesMax: Limits.procFileBytesMax)) ?? [], as: UTF8.self)
    }

    private static func lines(of path: String) -> [String] { text(of: path).split(separator: "\n").map(String.init) }
}

extension Limits {
    /// Bytes that are read of a table under /proc; of a longer one nothing is known.
    static let procFileBytesMax = 64 << 20
}
