/// To which member a share group has given a QoS 2 message that its sender has not released.
///
/// It stands in the row of the receipt, on the disk before the member's shard hears of the message: sent again after a crash, the message
/// goes to the same member, which takes it once. [MQTT-4.3.3-10 v5]
public struct GroupChoice: Equatable, Sendable {
    package static let size = 16

    /// Stands for the group's name and filter.
    public let group: UInt64
    /// The key of the member's session.
    public let session: UInt64

    /// Reads any number of them; nil if that is not what the bytes are.
    package static func all(in body: UnsafeRawBufferPointer) -> [GroupChoice]? {
        guard body.count % size == 0 else { return nil }
        var reader = RecordReader(body)
        var choices: [GroupChoice] = []
        while let group = reader.read(UInt64.self), let session = reader.read(UInt64.self) {
            choices.append(GroupChoice(group: group, session: session))
        }
        return choices
    }

    package static func encode(_ choices: [GroupChoice]) -> [UInt8] {
        var writer = RecordWriter()
        for choice in choices {
            writer.write(choice.group)
            writer.write(choice.session)
        }
        return writer.bytes
    }

    package init(
        group: UInt64, session: UInt64
    ) {
        self.group = group
        self.session = session
    }
}
