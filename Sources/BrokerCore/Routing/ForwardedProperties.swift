import MQTTCodec

/// The properties of a will that travel with the message, encoded as a PUBLISH carries them.
enum ForwardedProperties {
    static func encode(_ properties: Properties) -> [UInt8] {
        var kept = Properties()
        kept.payloadFormatIndicator = properties.payloadFormatIndicator
        kept.contentType = properties.contentType
        kept.responseTopic = properties.responseTopic
        kept.correlationData = properties.correlationData
        kept.userProperties = properties.userProperties
        return kept.encodedContent()
    }
}
