import Configuration
import Glibc
import Platform
import Transports

extension ListenError {
    /// Says what is in the way of a listener and what to type against it, as sentences without the last full stop.
    var advice: String {
        switch self {
        case .unresolved(let error):
            return
                "\(error). Write an address of this machine, a name that it knows (getent hosts \(error.host)), or none for all addresses"
        case .refused(let address, let error):
            if let path = address.path { return Self.advice(onSocket: path, at: address, error) }
            return Self.advice(onPort: address, error)
        }
    }

    /// The process that listens at the address already; nil when that is not what is wrong, or no process is found.
    var holder: SocketHolder? {
        guard case .refused(let address, let error) = self, error.errno == EADDRINUSE else { return nil }
        return SocketHolder.of(address)
    }

    private static func advice(onPort address: SocketAddress, _ error: SystemError) -> String {
        switch error.errno {
        case EADDRINUSE:
            let remedy = "or give this listener another port"
            guard let holder = SocketHolder.of(address) else { return "\(address) is in use. \(search(address)), \(remedy)" }
            return "\(address) is in use by \(holder.words). \(holder.stop ?? search(address)), \(remedy)"
        case EACCES where address.port > 0 && address.port < firstFreePort:
            let program = executable.map { "sudo setcap cap_net_bind_service=+ep \($0)" } ?? "a capability (CAP_NET_BIND_SERVICE)"
            return
                "\(address): ports below \(firstFreePort) are open to root only. Start the broker as root (it goes on as the option user "
                + "says), or let it have them: \(program), or take a port from \(firstFreePort) on"
        case EADDRNOTAVAIL:
            return
                "no network interface of this machine has the address \(address.endpoint.host). Those that it has: ip -brief address"
        case ENODEV:
            return
                "there is no such network interface. There are: \(interfaces.joined(separator: ", "))"
        case EPERM where error.operation.description == "setsockopt":
            return "only root may bind to a network interface here. Start the broker as root, or remove bind_interface"
        default: return "\(address): \(error.operation): \(error.reason)"
        }
    }

    private static func advice(onSocket path: String, at address: SocketAddress, _ error: SystemError) -> String {
        let path = FullPath.of(path)
        guard error.errno == EADDRINUSE else {
            let directory = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "/"
            return FileAccess.obstacle(toMakingFilesIn: directory)?.advice() ?? "\(path): \(error.operation): \(error.reason)"
        }
        if let holder = SocketHolder.of(address) {
            let stop = holder.stop.map { "\($0), or name another path" } ?? "Name another path"
            return "\(path) is in use by \(holder.words). \(stop)"
        }
        return "\(path) is in use: a file of this name is there that is no socket. Remove it, or name another path"
    }

    private static func search(_ address: SocketAddress) -> String {
        "Find out by whom: sudo ss -ltnp 'sport = :\(address.port)'"
    }

    /// The first port that needs no right.
    private static var firstFreePort: UInt16 {
        let text = (try? WholeFile.bytes(of: "/proc/sys/net/ipv4/ip_unprivileged_port_start", bytesMax: 64)) ?? []
        return UInt16(String(decoding: text.filter { $0 > 0x20 }, as: UTF8.self)) ?? 1024
    }

    /// The path of this program, nil when it is not to be had.
    private static var executable: String? {
        guard let path = realpath("/proc/self/exe", nil) else { return nil }
        defer { free(path) }
        return String(cString: path)
    }

    private static var interfaces: [String] {
        guard let list = if_nameindex() else { return [] }
        defer { if_freenameindex(list) }
        var names: [String] = []
        var entry = list
        while let name = entry.pointee.if_name {
            names.append(String(cString: name))
            entry += 1
        }
        return names
    }
}

extension SocketHolder {
    /// As a part of a sentence: `mosquitto (process 812)`.
    var words: String {
        if isThisProcess { return "another listener of this configuration" }
        guard let processIdentifier else {
            return user.map { "a process of \(UserName.inWords($0))" } ?? "another process"
        }
        return "\(program ?? "a process") (process \(processIdentifier))"
    }

    /// What ends it, as a sentence; nil when that is not known.
    var stop: String? {
        if isThisProcess { return "Remove one of them" }
        if let service {
            return "Stop it: sudo systemctl stop \(service.hasSuffix(".service") ? String(service.dropLast(8)) : service)"
        }
        // A process may be anything, and no line to kill one is safe to copy.
        return processIdentifier.map { _ in "Stop it" }
    }

    /// Whether it is a broker of this kind, by its program's name.
    var isMartlet: Bool { program?.hasPrefix("martlet") == true }

    /// Whether it is a broker that was started with a configuration file: the one at `path`.
    func isServing(_ path: String) -> Bool {
        guard isMartlet, let directory else { return false }
        let own = Self.resolved(FullPath.of(path))
        return arguments.contains { argument in
            let name = ["--config-file=", "-c"].first { argument.hasPrefix($0) && argument != $0 }.map {
                argument.dropFirst($0.count)
            }
            let file = String(name ?? argument[...])
            return Self.resolved(file.hasPrefix("/") ? file : "\(directory)/\(file)") == own
        }
    }

    private static func resolved(_ path: String) -> String {
        guard let whole = realpath(path, nil) else { return path }
        defer { free(whole) }
        return String(cString: whole)
    }
}

extension FileObstacle {
    /// Says what is in the way and what to type against it, as sentences without the last full stop. `user` is who may
    /// not, and who should.
    func advice(for user: uid_t = geteuid()) -> String {
        let who = UserName.inWords(user)
        let name = UserName.of(user) ?? "\(user)"
        switch self {
        case .missing(let path): return MissingFile(path).words
        case .missingDirectory(let path):
            let make = geteuid() == 0 && user != 0 ? "install -d -o \(name) -m 750 \(path)" : "mkdir -p \(path)"
            return "the directory \(path) does not exist. Make it: \(make)"
        case .notDirectory(let path): return "\(path) is a file, not a directory. Name a directory"
        case .isDirectory(let path): return "\(path) is a directory. Name a file"
        case .closedDirectory(let path):
            let remedy = Self.leaving(path, besides: name, "name a copy in another place") ?? "Open it: chmod o+x \(path)"
            return "the directory \(path) is closed to \(who). \(remedy)"
        case .unwritableDirectory(let path):
            return "\(who) may not make files in the directory \(path)\(Self.ownership(path)). \(Self.giving(path, to: name))"
        case .unreadable(let path):
            let remedy = ReadRight(userNamed: name)?.remedy(for: path) ?? Self.giving(path, to: name)
            return "\(who) may not read \(path)\(Self.ownership(path)). \(remedy)"
        case .unwritable(let path):
            return "\(who) may not write to \(path)\(Self.ownership(path)). \(Self.giving(path, to: name))"
        case .readOnlyFileSystem(let path): return "\(path) lies on a file system that is mounted read-only. Name another place"
        case .distrustedLink(let path):
            return
                "\(path) is a symbolic link in a directory that is not root's alone, which root does not follow. Name the file itself"
        }
    }

    /// How the user gets a file or a directory; what somebody else needs as it is stays so.
    private static func giving(_ path: String, to name: String) -> String {
        leaving(path, besides: name, "name another place") ?? "Give it away: chown \(name) \(path)"
    }

    private static func leaving(_ path: String, besides name: String, _ remedy: String) -> String? {
        OtherHolder.name(of: path, besides: name).map { "It is there for \($0), so leave it as it is and \(remedy)" }
    }

    private static func ownership(_ path: String) -> String {
        UserName.owner(of: path).map { ", which belongs to \($0)" } ?? ""
    }
}

/// What commands say of a file that they cannot use: what is in the way, and what to type against it.
public enum FileAdvice {
    /// Of a file that is to be read, as sentences without the last full stop; nil when it can be.
    public static func reading(_ path: String) -> String? { obstacle(toReading: path)?.advice() }

    /// What keeps this process from reading a file: one that is to be read is not made, and neither is its directory.
    static func obstacle(toReading path: String) -> FileObstacle? {
        let obstacle = FileAccess.obstacle(toReading: path)
        if case .missingDirectory = obstacle { return .missing(FullPath.of(path)) }
        return obstacle
    }

    /// Of a file that is to be written; nil when it can be.
    public static func writing(_ path: String) -> String? { FileAccess.obstacle(toWriting: path)?.advice() }

    /// The whole path of a file.
    public static func fullPath(of path: String) -> String { FullPath.of(path) }
}

/// A file that is to be read and is not there: which part of its path is missing, and which one was probably meant.
struct MissingFile {
    let path: String
    /// The first directory on the way that is not there; nil if only the file is missing.
    private(set) var directory: String?
    /// A file that is there and has nearly the same path; nil if there is none.
    private(set) var neighbour: String?

    /// - Parameter path: a whole path.
    init(_ path: String) {
        self.path = path
        let parts = path.split(separator: "/").map(String.init)
        var place = ""
        for (index, part) in parts.enumerated() {
            if FileAccess.obstacle(toReading: "\(place)/\(part)").map({ if case .missing = $0 { true } else { false } }) ?? false {
                if index < parts.count - 1 { directory = "\(place)/\(part)" }
                neighbour = Self.neighbour(in: place, parts[index...])
                return
            }
            place += "/\(part)"
        }
    }

    /// Says what is missing, as a sentence without the full stop.
    var words: String {
        let reason = directory.map { ", for there is no directory \($0)" } ?? ""
        return "\(path) does not exist\(reason)\(neighbour.map { "; there is \($0)" } ?? "")"
    }

    /// The nearest path below a directory that is there.
    private static func neighbour(in directory: String, _ parts: ArraySlice<String>) -> String? {
        guard let part = parts.first else { return directory }
        let names = (try? DiskFiles().names(inDirectory: directory.isEmpty ? "/" : directory)) ?? []
        guard names.count <= Limits.neighboursMax else { return nil }
        let name = names.contains(part) ? part : NearestName.nearest(to: part, among: names.sorted())
        return name.flatMap { neighbour(in: "\(directory)/\($0)", parts.dropFirst()) }
    }
}

extension Limits {
    /// Names in a directory that a missing file's is compared with; in a larger one no other is proposed.
    /// Bytes: 256 each at most, until one is found.
    static let neighboursMax = 1000
}
