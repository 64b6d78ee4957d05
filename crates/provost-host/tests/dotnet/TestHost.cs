// The process in which `dotnet test` runs the tests of a project. The SDK has it for Windows only, and the package
// with the one for other systems cannot be fetched; everything it calls is in the SDK.

using System;
using Microsoft.VisualStudio.TestPlatform.Common.Telemetry;
using Microsoft.VisualStudio.TestPlatform.CommunicationUtilities;
using Microsoft.VisualStudio.TestPlatform.CommunicationUtilities.ObjectModel;
using Microsoft.VisualStudio.TestPlatform.CrossPlatEngine;
using Microsoft.VisualStudio.TestPlatform.ObjectModel;
using Microsoft.VisualStudio.TestPlatform.ObjectModel.Client;
using Microsoft.VisualStudio.TestPlatform.ObjectModel.Client.Interfaces;
using Microsoft.VisualStudio.TestPlatform.Common;

public static class TestHost
{
    public static void Main(string[] words)
    {
        var endpoint = words[Array.IndexOf(words, "--endpoint") + 1];
        var handler = new TestRequestHandler();
        handler.ConnectionInfo = new TestHostConnectionInfo
        {
            Endpoint = endpoint,
            Role = ConnectionRole.Client,
            Transport = Transport.Sockets,
        };
        handler.InitializeCommunication();
        if (!handler.WaitForRequestSenderConnection(600000)) throw new TimeoutException(endpoint);
        var data = new RequestData { MetricsCollection = new NoOpMetricsCollection() };
        handler.ProcessRequests(new TestHostManagerFactory(data));
    }
}
