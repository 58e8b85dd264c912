// Client, Messaging, TopicName and the other words of the library, without a second import.
@_exported public import MartletClient
