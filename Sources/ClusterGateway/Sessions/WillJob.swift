import Cluster

/// A will on its way: first to the retained messages, if it is one, and then into the log. Both know it by its name, so that it counts once
/// whoever brings it, and how often.
///
///     waiting ──► retaining ──► logging ──► over
struct WillJob {
    struct Key: Hashable {
        let session: [UInt8]
        let name: WillName
    }

    enum Stage {
        case retaining
        case logging
    }

    let key: Key
    let will: SessionRecord.LastWill
    var stage: Stage
    /// The request under way; nil for none.
    var token: UInt64?
    /// What goes to the servers before it; nil before its first turn.
    var ahead: WillAhead?

    init(_ will: SessionRecord.LastWill, of session: [UInt8]) {
        (key, self.will) = (Key(session: session, name: will.name), will)
        stage = will.isRetained ? .retaining : .logging
    }

    /// What names it to the servers.
    var messageIdentifier: String {
        let session = String(decoding: SubjectSpace.digest(key.session), as: UTF8.self)
        return "will-\(session)-\(key.name.epoch)-\(key.name.number)"
    }

    /// Stands for the node in the change of what is retained, so that all who publish the will make the same one.
    var changeNode: NodeID {
        NodeID(messageIdentifier.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 })
    }
}

extension SessionRecord.LastWill {
    /// Whether it is to be retained.
    var isRetained: Bool { withMessage { $0.retain } ?? false }

    /// Calls `body` with the message; nil if there is none.
    func withMessage<Result>(_ body: (BusMessage) -> Result) -> Result? {
        message.withUnsafeBytes { bytes in BusMessage(entry: bytes).map(body) }
    }
}
