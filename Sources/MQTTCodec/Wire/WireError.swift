/// The ways in which a packet can be wrong: what a peer did, never what failed on our side.
///
/// Trivial on purpose: throwing one costs no allocation. `reasonCode`, `statement` and `explanation` say the rest.
public enum WireError: UInt8, Error, Hashable, CaseIterable {
    case remainingLengthTooLong
    case truncated
    case trailingBytes
    case reservedPacketType
    case reservedFlags
    case invalidUTF8
    case nullCharacter
    case nonMinimalVariableByteInteger
    case invalidQoS
    case duplicateAtMostOnce
    case topicNameWithWildcard
    case emptyTopic
    case invalidTopicFilter
    case packetIdentifierZero
    case unknownProperty
    case propertyNotAllowed
    case duplicateProperty
    case invalidPropertyValue
    case invalidResponseTopic
    case unsupportedProtocolVersion
    case protocolName
    case reservedConnectFlag
    case willFlags
    case passwordWithoutUserName
    case emptySubscribe
    case emptyUnsubscribe
    case emptyAcknowledgement
    case reservedSubscriptionOptions
    case invalidMaximumQoS
    case invalidRetainHandling
    case noLocalOnSharedSubscription
    case invalidReasonCode
    case reservedConnackFlags
    case topicAliasZero
    case subscriptionIdentifierZero
    case subscriptionIdentifierFromClient
    case sessionExpiryIntervalFromServer
    case receiveMaximumZero
    case maximumPacketSizeZero
    case authenticationDataWithoutMethod
    case authenticationMethodMissing
    case unexpectedPacket
    case tooManyUserProperties
    case tooManyFilters
}
