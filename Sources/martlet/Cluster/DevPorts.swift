import Glibc

/// The ports of this machine that a cluster on trial listens on.
struct DevPorts {
    /// By node.
    var mqtt: [UInt16] = []
    var http: [UInt16] = []
    /// By NATS server.
    var nats: [UInt16] = []
    var health: [UInt16] = []
    var routes: [UInt16] = []

    static let serverCount = 3

    /// Nodes get the port and those behind it. The others get the first that nobody has from the usual ones on, moved as far as the first
    /// node's is from 1883, so that clusters that start at the same time do not meet.
    init(firstNode: UInt16, nodeCount: Int) throws(DevFailure) {
        for index in 0..<nodeCount {
            let port = firstNode + UInt16(index)
            guard Self.isFree(port) else {
                throw DevFailure(
                    "port \(port), for node-\(index + 1), is in use on 127.0.0.1. Choose where the nodes' ports begin with --port.")
            }
            mqtt.append(port)
        }
        http = try next(nodeCount, behind: 9883, firstNode)
        nats = try next(Self.serverCount, behind: 4222, firstNode)
        health = try next(Self.serverCount, behind: 8222, firstNode)
        routes = try next(Self.serverCount, behind: 6222, firstNode)
    }

    private func next(_ count: Int, behind usual: Int, _ firstNode: UInt16) throws(DevFailure) -> [UInt16] {
        let moved = usual + Int(firstNode) - 1883
        let first = UInt16(moved <= 65_000 ? moved : usual)
        let taken = Set(mqtt + http + nats + health)
        let free = (first..<UInt16.max).lazy.filter { !taken.contains($0) && Self.isFree($0) }.prefix(count)
        guard free.count == count else { throw DevFailure("there are no \(count) free ports from \(first) on.") }
        return Array(free)
    }

    private static func isFree(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var yes: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0 && listen(descriptor, 1) == 0
            }
        }
    }
}
