/// Gives out packet identifiers that are not in use. [MQTT-2.2.1-3 v5]
struct PacketIdentifierSource: Sendable {
    private var used: Set<UInt16> = []
    private var last: UInt16 = 0

    /// The next that is free, nil when all 65,535 are in use. The number after the last one most often is.
    mutating func take() -> UInt16? {
        guard used.count < Int(UInt16.max) else { return nil }
        repeat {
            last = last == .max ? 1 : last + 1
        } while !used.insert(last).inserted
        return last
    }

    mutating func giveBack(_ identifier: UInt16) {
        used.remove(identifier)
    }
}
