/// When a subscription gets the retained messages that match it.
public enum RetainHandling: UInt8, Sendable {
    case sendAtSubscribe = 0
    case sendIfNewSubscription = 1
    case doNotSend = 2
}
