/// The servers that are known, and which is tried when.
struct ServerPool {
    private(set) var servers: [ServerAddress]
    private var next = 0
    /// Attempts that have failed since one has not.
    private var failedCount = 0
    private var lastPause = Limits.pauseMillisecondsMin

    /// - Parameter servers: one at least, in the order in which they are tried: the first one is mostly the nearest.
    init(_ servers: [ServerAddress]) { self.servers = servers }

    /// The server whose turn it is.
    mutating func takeNext() -> ServerAddress {
        let server = servers[next % servers.count]
        next = (next + 1) % servers.count
        return server
    }

    /// The server whose turn it was has it once more.
    mutating func turnBack() { next = (next + servers.count - 1) % servers.count }

    /// A server has told of others. They are spoken to as it was; addresses without a name show a certificate for its name.
    mutating func learn(_ addresses: [String], from teller: ServerAddress, usesTLS: Bool) {
        for text in addresses where servers.count < Limits.serversMax {
            guard let told = try? ServerAddress(reading: text) else { continue }
            if servers.contains(where: { $0.host == told.host && $0.port == told.port }) { continue }
            servers.append(
                ServerAddress(
                    host: told.host, port: told.port, usesTLS: usesTLS, login: teller.login,
                    certificateName: told.isNumeric ? teller.certificateName : told.host))
        }
    }

    mutating func succeeded() { (failedCount, lastPause) = (0, Limits.pauseMillisecondsMin) }

    /// An attempt has failed. Returns how long to wait before the next, in milliseconds: 0 until every server was tried, then a pause of
    /// decorrelated jitter, so that nodes that lost one server do not come back together.
    mutating func failed(random: inout some RandomNumberGenerator) -> UInt64 {
        failedCount += 1
        guard failedCount >= servers.count else { return 0 }
        failedCount = 0
        let high = min(Limits.pauseMillisecondsMax, max(Limits.pauseMillisecondsMin + 1, lastPause * 3))
        lastPause = UInt64.random(in: Limits.pauseMillisecondsMin...high, using: &random)
        return lastPause
    }
}
