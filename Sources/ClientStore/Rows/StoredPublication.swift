internal import ClientCore
internal import MQTTCodec

/// A message in a row.
///
///     flags 1 | expires at 8, if flagged | topic | properties, without their length | payload
///     flags: QoS in bits 0 and 1, retain in 2, duplicate in 3, whether it expires in 4; that in milliseconds since 1970
enum StoredPublication {
    static func write(_ publication: Publication, duplicate: Bool = false, expiresAt: UInt64 = .max, to writer: inout RowWriter) {
        writer.write(publication.qos.rawValue | (publication.retain ? 4 : 0) | (duplicate ? 8 : 0) | (expiresAt < .max ? 16 : 0))
        if expiresAt < .max { writer.write(expiresAt) }
        writer.write(publication.topic.bytes)
        writer.write(publication.hasProperties ? publication.properties.encodedContent() : [])
        writer.write(rest: publication.payload)
    }

    static func read(_ reader: inout RowReader) -> (publication: Publication, duplicate: Bool, expiresAt: UInt64)? {
        guard let flags = reader.number(UInt8.self), let qos = QoS(rawValue: flags & 3),
            let expiresAt = flags & 16 == 0 ? UInt64.max : reader.number(UInt64.self), let bytes = reader.field(),
            let topic = TopicName(bytes), let content = reader.field()
        else { return nil }
        var publication = Publication(topic, Payload(reader.rest()), qos: qos, retain: flags & 4 != 0)
        if !content.isEmpty {
            guard let properties = Properties(publishContent: Array(content)) else { return nil }
            publication.properties = properties
        }
        return (publication, flags & 8 != 0, expiresAt)
    }
}
